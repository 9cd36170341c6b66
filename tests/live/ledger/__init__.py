"""An outside ledger: client processes that keep their own books, and where these and Highwater's verdict disagree."""

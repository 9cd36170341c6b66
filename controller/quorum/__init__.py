"""One voter of KRaft's quorum, pure: votes, epochs, the leader's and the follower's side of fetches.

May import: no other room of this package.
Open first: quorum.py.
"""

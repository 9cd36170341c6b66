"""The group coordinator, pure: which members a group has, which generation, which offsets it has committed."""

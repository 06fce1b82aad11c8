"""Follows runs of hosts over the network: discovery, event streams, polling, and a fair worker for all tenants.

Knows nothing of the database: what it reads goes through `store.FollowStore`, which its caller provides.
"""

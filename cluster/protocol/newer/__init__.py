"""Message classes like kio's, for message versions of Kafka 4.4 that kio lacks.

Requests and responses are in two modules, because they are distinguished by the module's name, as with kio's classes.
If only the request or only the response changed in a new version, kio's class of the previous version serves for the
other one.
Source: the messages' JSON of Kafka 4.4

May import: no sibling package.
Open first: request.py.
"""

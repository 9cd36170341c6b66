"""Classes, in the form of kio's, for message versions of Kafka 4.4 that kio lacks.

Requests and responses are in two modules, because they are distinguished by the module's name, as with kio's classes.
For a message that did not change in its API's new version, kio's class of the previous version is used.
Source: the messages' JSON of Kafka 4.4

May import: no sibling package.
Open first: request.py.
"""

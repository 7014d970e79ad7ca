"""The gRPC runtime of the services: everything between the socket and a servicer's method."""

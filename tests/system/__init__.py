"""Whole journeys: real processes, real gRPC, a scripted forge, a real collector."""

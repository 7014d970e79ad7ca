# Who plays beside the suite in tests: the forge and the trace receiver.
ARG FENCEPOST_IMAGE
FROM ${FENCEPOST_IMAGE}
COPY examples examples
HEALTHCHECK NONE
CMD ["python", "-m", "examples.trace_receiver", "--grpc", "0.0.0.0:4317", "--http", "0.0.0.0:4318"]

# How signproxy ships: the locked packages and the compiled product on a slim Python, and nothing that could build more.
#
# The base is named by its tag, which moves with its security fixes. It is the one with OpenSSL 3.5, which takes
# less of the processor for TLS than the 3.0 of the release before. A release pins what it was tested with:
#   docker build --build-arg PYTHON=python:3.11-slim-trixie@sha256:<digest> --build-arg REVISION=<commit> .
ARG PYTHON=python:3.11-slim-trixie

FROM ${PYTHON} AS build
# pip itself runs in the environment that it installs into, and would leave bytecode of another kind there.
ENV PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
COPY requirements/build.txt requirements/run.txt requirements/
# What installs stays in an environment of its own: the one that ships has no pip. Only what the lock names by digest
# is taken, and nothing of it is compiled or run here.
RUN python -m venv tools \
    && tools/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/build.txt \
    && python -m venv --without-pip /opt/signproxy \
    && tools/bin/pip --python /opt/signproxy/bin/python install --no-cache-dir --no-compile \
        --require-hashes --only-binary :all: -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY signproxy signproxy
# Unchecked: a file system that is read-only could not keep newer bytecode, and layers need not keep the sources' times.
RUN tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir wheels . \
    && tools/bin/pip --python /opt/signproxy/bin/python install --no-cache-dir --no-compile --no-deps --no-index \
        wheels/*.whl \
    && /opt/signproxy/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/signproxy/lib

FROM ${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="signproxy" \
      org.opencontainers.image.description="Lets engines reach S3 tables without ever holding S3 keys." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/signproxy/signproxy" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# MALLOC: buffers of streamed bodies stay in the heap between two reads. Given back to the kernel and fetched again, they
# would cost half of what a download costs.
ENV PATH=/opt/signproxy/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MALLOC_TRIM_THRESHOLD_=67108864 \
    MALLOC_MMAP_THRESHOLD_=33554432 \
    MALLOC_TOP_PAD_=16777216
# The base brings pip, which would only serve an intruder, and no bytecode of its own library, which every start would
# then compile anew.
RUN library="$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && rm -rf "${library:?}/site-packages" "${library:?}/ensurepip" /usr/local/bin/pip* \
    && python -m compileall -q --invalidation-mode unchecked-hash \
        -x '/(idlelib|lib2to3|test|tests|tkinter|turtledemo)/' "${library}"
COPY --from=build /opt/signproxy /opt/signproxy
WORKDIR /
# No name is needed: a number is what `runAsNonRoot` can check.
USER 65532:65532
EXPOSE 8181 8182 9181
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["signproxy", "healthcheck"]
ENTRYPOINT ["signproxy"]
CMD ["serve"]

# `komd serve` as an image: no root, a read-only root file system, machine code compiled while it is built.
#
#     docker build -t komd .
#     docker run --read-only --tmpfs /tmp -v ./plays.komd:/data/plays.komd -p 127.0.0.1:8000:8000 komd
#
# Machine code is for the processor of the machine that builds the image. On another kind of processor it is compiled
# once more at the first start, and kept in the volume /cache. To build for any processor (slower code, no compilation
# at a start): --build-arg NUMBA_CPU_NAME=generic
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python3 -m venv /opt/komd \
 && /opt/komd/bin/python -m pip install --quiet --no-cache-dir ".[serve,postgresql,tracing]"
# The cache of machine code knows its sources by their times, and layers of an image keep whole seconds only.
RUN find /opt/komd -path "*/komd/_core/*.py" -exec touch -d "2026-01-01 00:00:00" {} +
ARG NUMBA_CPU_NAME
ENV NUMBA_CACHE_DIR=/opt/komd/machine-code
COPY deploy/warm.py ./
RUN /opt/komd/bin/python warm.py

FROM python:${PYTHON}-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin komd \
 && install --directory --owner komd --group komd /data /data/state /cache
COPY --from=build /opt/komd /opt/komd
COPY --chmod=755 deploy/entrypoint.sh /opt/komd/bin/komd-entrypoint
ARG NUMBA_CPU_NAME
ENV PATH=/opt/komd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CPU_NAME=${NUMBA_CPU_NAME} \
    NUMBA_CACHE_DIR=/cache
USER 10001
WORKDIR /data
VOLUME ["/data", "/cache"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/v1/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["komd-entrypoint"]
# Inside a container every address is needed; the port is published on 127.0.0.1 unless there are tokens.
CMD ["serve", "plays.komd", "--host", "0.0.0.0", "--insecure"]

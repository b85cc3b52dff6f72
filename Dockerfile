# `poller run` in a container: leases decide which of N such containers works on which poller.
# Mount the folder with poller.toml, what it includes (pollers.d/) and the handlers at /app. It writes nothing outside /tmp:
# docs/security.md has the command, docs/containers.md what runs it.
#
# The base is a tag, which may come to mean another image. To pin it, give its digest:
#   docker buildx imagetools inspect python:3.13-slim
#   docker build --build-arg BASE=python:3.13-slim@sha256:... .
ARG BASE=python:3.13-slim
FROM ${BASE}

# A number: Kubernetes' runAsNonRoot does not look names up. No home, nothing to write.
RUN useradd --system --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin poller

WORKDIR /src
# PostgreSQL's and MySQL's drivers are always there. More of pyproject.toml's extras: --build-arg EXTRAS=mssql,otel
ARG EXTRAS=""
# Nothing is installed that these files do not name by its hash, what builds the wheel included.
COPY requirements-hashes.txt ./
COPY deploy/extras extras
RUN touch more.txt && IFS=, && for extra in ${EXTRAS}; do \
      case "${extra}" in postgres | mysql) continue ;; esac; \
      cat "extras/${extra}.txt" >> more.txt || exit 1; \
    done && \
    sort -u -o more.txt more.txt && cat requirements-hashes.txt more.txt > all.txt && \
    pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement all.txt
COPY pyproject.toml README.md LICENSE ./
COPY scripts/long_description.py scripts/
COPY man man
COPY poller poller
COPY cli cli
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

ENV PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /app
# On SIGTERM the batch in hand is finished, committed and released; give it the time (docker-compose.yml does).
STOPSIGNAL SIGTERM
# Whether the loop of `poller run` goes round, and nothing else: docs/containers.md. Arguments of your own need --alive-file too.
HEALTHCHECK --interval=20s --timeout=5s --start-period=60s --retries=3 \
    CMD ["sh", "-c", "test $(($(date +%s) - $(stat -c %Y /tmp/poller-alive))) -lt 60"]
# Until Python runs, a first process (PID 1) would lose a SIGTERM: blocked, it waits. `poller` lets it in.
ENTRYPOINT ["env", "--block-signal=TERM,HUP", "poller"]
CMD ["run", "--alive-file", "/tmp/poller-alive"]

# `poller run` in a container: leases decide which of N such containers works on which poller.
# Mount the folder with poller.toml, what it includes (pollers.d/) and the handlers at /app. It writes nothing outside /tmp:
# docs/security.md has the command.
#
# The base is a tag, which may come to mean another image. To pin it, give its digest:
#   docker buildx imagetools inspect python:3.13-slim
#   docker build --build-arg BASE=python:3.13-slim@sha256:... .
ARG BASE=python:3.13-slim
FROM ${BASE}

WORKDIR /src
# Nothing is installed that requirements-hashes.txt does not name by its hash, what builds the wheel included.
COPY requirements-hashes.txt ./
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-hashes.txt
COPY pyproject.toml README.md LICENSE ./
COPY poller poller
COPY cli cli
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

# A number: Kubernetes' runAsNonRoot does not look names up. No home, nothing to write.
RUN useradd --system --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin poller
ENV PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /app
# On SIGTERM the batch in hand is finished, committed and released; give it the time (docker-compose.yml does).
STOPSIGNAL SIGTERM
ENTRYPOINT ["poller"]
CMD ["run"]

# `poller run` in a container: leases decide which of N such containers works on which poller.
# Mount poller.toml and the handlers it names at /app.
FROM python:3.13-slim

WORKDIR /src
COPY requirements.txt ./
RUN pip install --no-cache-dir --disable-pip-version-check -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY poller poller
COPY cli cli
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps .

RUN useradd --system --create-home poller
USER poller
WORKDIR /app
# On SIGTERM the batch in hand is finished, committed and released; give it the time (docker-compose.yml does).
STOPSIGNAL SIGTERM
ENTRYPOINT ["poller"]
CMD ["run"]

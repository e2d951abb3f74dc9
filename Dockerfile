# counterpop serve, small and without root. Not built yet: no Docker where this was written; checked with hadolint.
#
#   docker build --tag counterpop .
#   docker run --read-only --tmpfs /tmp -p 8000:8000 -v "$PWD/RUN:/run/model:ro" -v "$PWD/tokens:/run/tokens:ro" counterpop
#
# tokens: one line for each, at least 16 characters; docs/serving.md says what they open.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir '.[serve]'

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 counterpop
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/tmp/numba
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=60s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["counterpop", "serve"]
CMD ["/run/model", "--host", "0.0.0.0", "--port", "8000", "--token-file", "/run/tokens"]

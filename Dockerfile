# All programs of a cluster in one image; which of them runs is the container's arguments: `serve webhook`, `serve agent`, ...
#   docker build --build-arg BASE_DIGEST=sha256:... -t tensorfusion-iac:0.1.0 .
# The base is named by its digest, so that the same commit gives the same image; docs/install.md says how to look it up.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
ARG BASE_DIGEST

FROM ${BASE}@${BASE_DIGEST} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/tensorfusion
# What seldom changes comes first: the packages, each with its hash.
COPY requirements-image.lock /src/
RUN /opt/tensorfusion/bin/pip install --require-hashes --only-binary :all: -r /src/requirements-image.lock
COPY pyproject.toml README.md LICENSE /src/
COPY tools /src/tools
COPY tensorfusion_iac /src/tensorfusion_iac
# Pulumi is a dependency of the components alone, which no program imports.
RUN pip wheel --no-deps --wheel-dir /wheels /src && /opt/tensorfusion/bin/pip install --no-deps /wheels/*.whl

FROM ${BASE}@${BASE_DIGEST}
LABEL org.opencontainers.image.title="tensorfusion-iac" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/tensorfusion /opt/tensorfusion
ENV PATH=/opt/tensorfusion/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["tensorfusion"]

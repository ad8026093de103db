FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY config/crd config/crd
COPY controllers controllers
COPY envserver envserver
COPY scenarios scenarios
COPY tasks tasks
ARG TARGETOS TARGETARCH VERSION=dev
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -tags disable_grpc_modules,grpcnotrace,image \
    -ldflags "-s -w -X main.version=$VERSION" -o /out/csenv ./cmd/csenv
RUN for name in envserver manager runner; do ln -s csenv /out/$name; done

# The image holds one static binary, which is all programs, and links with their names. It has no shell
# and no packages to patch.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ /
USER 65532:65532
EXPOSE 8000 9000
# Tools that start OpenEnv servers pass no command. The operator's manifests name their programs.
ENTRYPOINT ["/envserver"]

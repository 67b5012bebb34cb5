"""Reads bodies of OTLP exports with the OpenTelemetry project's own classes, and prints all spans as JSON."""
import base64
import json
import sys

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

spans = []
for path in sys.argv[1:]:
    request = ExportTraceServiceRequest()
    with open(path, "rb") as body:
        request.ParseFromString(body.read())
    for resource in MessageToDict(request)["resourceSpans"]:
        told = {pair["key"]: pair["value"]["stringValue"] for pair in resource["resource"]["attributes"]}
        assert told["service.name"] == "hapax", told
        for scope in resource["scopeSpans"]:
            spans.extend(scope["spans"])
for span in spans:
    for name in ("traceId", "spanId", "parentSpanId"):
        if name in span:
            span[name] = base64.b64decode(span[name]).hex()
print(json.dumps(spans))

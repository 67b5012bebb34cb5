//! Spans as OTLP has them: an `ExportTraceServiceRequest` of opentelemetry-proto 1.x, in Protocol Buffers.
//!
//! Written by hand: six messages, whose field numbers never change. A test lets the official package for Python read what is written.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_gateway::trace::{Side, Span, Trace, Value};

/// The wire type of a number of variable length.
const VARINT: u32 = 0;
/// The wire type of eight bytes.
const FIXED64: u32 = 1;
/// The wire type of what has a length.
const LENGTH: u32 = 2;

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u32, number: u64) {
        self.tag(field, VARINT);
        self.varint(number);
    }

    fn fixed(&mut self, field: u32, number: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// A `KeyValue`.
    fn attribute(&mut self, field: u32, name: &str, value: &Value) {
        self.message(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.message(2, |any| match value {
                Value::Text(text) => any.bytes(1, text.as_bytes()),
                Value::Number(number) => any.number(3, number.cast_unsigned()),
            });
        });
    }
}

/// What is sent for these traces.
pub(super) fn request(traces: &[Trace]) -> Vec<u8> {
    let mut request = Message::default();
    // ResourceSpans
    request.message(1, |spans| {
        spans.message(1, |resource| {
            let version = Value::Text(env!("CARGO_PKG_VERSION").to_owned());
            resource.attribute(1, "service.name", &Value::Text("hapax".to_owned()));
            resource.attribute(1, "service.version", &version);
        });
        // ScopeSpans
        spans.message(2, |scope| {
            scope.message(1, |scope| scope.bytes(1, b"hapax"));
            for trace in traces {
                write_trace(scope, trace);
            }
        });
    });
    request.0
}

fn write_trace(scope: &mut Message, trace: &Trace) {
    let root = trace.spans.first().map(|span| span.id);
    for (number, span) in trace.spans.iter().enumerate() {
        let parent = if number == 0 { trace.parent } else { root };
        scope.message(2, |message| {
            message.bytes(1, trace.id.bytes());
            message.bytes(2, span.id.bytes());
            if let Some(parent) = parent {
                message.bytes(4, parent.bytes());
            }
            write_span(message, span);
        });
    }
}

fn write_span(message: &mut Message, span: &Span) {
    message.bytes(5, span.name.as_bytes());
    message.number(
        6,
        match span.side {
            Side::Internal => 1,
            Side::Server => 2,
            Side::Client => 3,
        },
    );
    message.fixed(7, nanos(span.began));
    message.fixed(8, nanos(span.began + span.took));
    for (name, value) in &span.attributes {
        message.attribute(9, name, value);
    }
    if span.failed {
        // Status: an error, without a text.
        message.message(15, |status| status.number(3, 2));
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

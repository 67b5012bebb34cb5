//! Every bound and default of this crate.

use std::time::Duration;

/// The longest time for the head of a request.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A body that comes more slowly, in bytes per second, is given up.
pub(crate) const BODY_RATE: u64 = 512;
/// The longest silence on a connection without a request.
pub(crate) const IDLE: Duration = Duration::from_secs(75);
/// Connections at a time.
pub(crate) const CONNECTIONS: usize = 20_000;
/// The longest time to connect to a service.
pub(crate) const CONNECT: Duration = Duration::from_secs(3);
/// Connections to one service, each thread.
pub(crate) const UPSTREAM_CONNECTIONS: usize = 1024;
/// How long an unused connection to a service is kept.
pub(crate) const UPSTREAM_IDLE: Duration = Duration::from_secs(30);
/// The silence on a connection after which the kernel asks whether the other end is still there; then how often, and how many
/// times before it is not.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);
pub(crate) const SILENCE_PROBE: Duration = Duration::from_secs(15);
pub(crate) const SILENCE_PROBES: u32 = 4;
/// The longest head of a service's answer, in bytes.
pub(crate) const ANSWER_HEAD: usize = 64 << 10;
/// The longest trailers of a message, in bytes.
pub(crate) const TRAILERS: usize = 32 << 10;
/// Fields in the head of a service's answer, and in anybody's trailers; they are found on the stack.
pub(crate) const ANSWER_FIELDS: usize = 100;
/// Fields that the edge adds to most answers, for the size of the map.
pub(crate) const ANSWER_FIELDS_ADDED: usize = 4;
/// Answers such as 103 that a service may send before its answer.
pub(crate) const INTERIM_ANSWERS: usize = 1024;
/// Bytes of chunk extensions in one message; nobody reads them.
pub(crate) const CHUNK_EXTENSIONS: usize = 16 << 10;
/// Bytes that are read from a client at once; from a service at first, and when they keep coming.
pub(crate) const READ: usize = 8 << 10;
pub(crate) const READ_MOST: usize = 64 << 10;
/// The longest piece of a request that is copied behind what goes before it, so that both are one write.
pub(crate) const SEND_COPIED: usize = 8 << 10;
/// Bytes of a request that are gathered before they are written.
pub(crate) const SEND_GATHERED: usize = 64 << 10;
/// Writes of one upload before its answer is looked for.
pub(crate) const SEND_TURN: usize = 16;
/// Addresses of one service that are tried for one connection.
pub(crate) const UPSTREAM_ADDRESSES: usize = 8;
/// The shortest pause between two looks for connections that nobody needs.
pub(crate) const UPSTREAM_SWEEP: Duration = Duration::from_millis(50);
/// The longest PEM file.
pub(crate) const PEM: u64 = 1 << 20;
/// Threads that serve requests.
pub(crate) const THREADS: usize = 1024;
/// Connections that wait to be accepted, on each thread.
pub(crate) const BACKLOG: i32 = 4096;
/// The pause after nothing could be accepted.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// One peer address may have the connections of all, divided by this, unless the settings say how many.
pub(crate) const PEER_SHARE: usize = 2;
/// How long after a warning about refused connections the next one of the same peer may come.
pub(crate) const WARNED_AGAIN: Duration = Duration::from_secs(60);
/// Peers that are warned about in that time; of others only the counter tells.
pub(crate) const WARNED_PEERS: usize = 1024;
/// The longest head of a request, in bytes.
pub(crate) const HEAD: usize = 32 << 10;
/// What is beyond this bound HTTP/2 refuses without a word; up to there, what is too long is told so.
pub(crate) const H2_HEAD: u32 = 2 * HEAD as u32;
/// Fields in the head of a request; they are found on the stack.
pub(crate) const FIELDS: usize = 100;
/// The longest target of a request, in bytes.
pub(crate) const TARGET: usize = 8 << 10;
/// How long a client that was told off may go on sending before its connection is closed: its answer may still be on its way.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
/// Bytes that are read ahead on one connection, and for HTTP/2 held each way.
pub(crate) const CONNECTION_BUFFER: usize = 64 << 10;
/// The longest TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// The shortest time-out that is kept on a connection.
pub(crate) const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);
/// Streams of one HTTP/2 connection at a time.
pub(crate) const STREAMS: u32 = 100;
/// Streams of one HTTP/2 connection that the client reset before they were looked at.
pub(crate) const PENDING_RESETS: usize = 20;
/// Streams of one HTTP/2 connection that were reset for the client's mistakes.
pub(crate) const ERROR_RESETS: usize = 100;
/// Bytes of a request that one HTTP/2 stream may send ahead.
pub(crate) const STREAM_WINDOW: u32 = 256 << 10;
/// Bytes of an answer that a client of HTTP/2 is to take before it counts as slow: as long as its frames usually are.
pub(crate) const STREAM_PIECE: usize = 16 << 10;
/// A client of HTTP/2 reads what was handed out to it at least this fast, in bytes per second; until then it need not take more.
pub(crate) const STREAM_READ_RATE: f64 = (8 << 10) as f64;
/// The most time that it has for that, however much it was handed: half of a window of 16 MiB at that rate, nearly.
pub(crate) const STREAM_READING: Duration = Duration::from_secs(15 * 60);
/// Bytes of requests that one HTTP/2 connection may send ahead.
pub(crate) const CONNECTION_WINDOW: u32 = 1 << 20;
/// How often an HTTP/2 connection with streams is asked whether it still stands, and how long its answer may take.
pub(crate) const PING: Duration = Duration::from_secs(20);
/// How long both ends of a tunnel have to answer that it closes, when the process ends.
pub(crate) const TUNNEL_CLOSING: Duration = Duration::from_secs(2);
/// How much longer than its time a drain waits for threads to say how it ended.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(1);

// What the code relies on between two bounds.

const _: () = assert!(TARGET < HEAD, "a head has room for the longest target");
const _: () = assert!(HEAD as u32 <= H2_HEAD, "HTTP/2 lets through what is then told to be too long");
const _: () = assert!(ANSWER_HEAD <= u32::MAX as usize, "places in a head are kept as 32-bit numbers");
const _: () = assert!(HEAD <= CONNECTION_BUFFER, "a head that may be read ahead fits into the buffer");
const _: () = assert!(
    READ <= CONNECTION_BUFFER && READ <= READ_MOST,
    "reading grows from the first size to the largest"
);
const _: () = assert!(SEND_COPIED <= SEND_GATHERED, "a piece that is copied fits into what is gathered");
const _: () = assert!(STREAM_WINDOW <= CONNECTION_WINDOW, "one stream may use its window");
const _: () = assert!(STREAM_PIECE <= CONNECTION_BUFFER, "a piece of an answer can be handed out");
const _: () = assert!(
    SILENCE_PROBE.as_millis() <= SILENCE.as_millis(),
    "probes are closer together than the silence before them"
);
const _: () =
    assert!(UPSTREAM_SWEEP.as_millis() < UPSTREAM_IDLE.as_millis(), "idle connections are found in time");
const _: () = assert!(SHORTEST_TIMEOUT.as_millis() < LINGER.as_millis(), "what is told off is waited for");
const _: () = assert!(
    HEADER_TIMEOUT.as_millis() <= IDLE.as_millis(),
    "a head that has begun has no longer than silence"
);
const _: () = assert!(PEER_SHARE >= 1 && PEER_SHARE <= CONNECTIONS, "one address may have a connection");

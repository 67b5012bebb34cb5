//! HTTP/1 messages as bytes on a socket: one head and a body of known length, whichever way it goes.

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// A request or an answer, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// With the empty line that ends it.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// Reads one; what comes after it stays in the buffer. `None` where the connection ended before.
    pub(crate) async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Message> {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            more(stream, buffer).await?;
        };
        let mut message =
            Message { head: String::from_utf8_lossy(&buffer[..end]).into_owned(), body: Vec::new() };
        assert!(message.header("transfer-encoding").is_none(), "nobody here reads chunks: {}", message.head);
        let end = end + message.header("content-length").map_or(0, |length| length.parse().unwrap());
        while buffer.len() < end {
            more(stream, buffer).await?;
        }
        message.body = buffer.drain(..end).skip(message.head.len()).collect();
        Some(message)
    }

    /// The fields of the head, in their order.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.map(|(name, value)| (name, value.trim()))
    }

    /// The first field of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The same bytes again.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head.as_bytes(), &self.body].concat()
    }
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(buffer).await {
        Ok(1..) => Some(()),
        _ => None,
    }
}

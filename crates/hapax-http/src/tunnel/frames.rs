//! Where a stream of WebSocket frames stands (RFC 6455, 5.2): between two frames, or within one. Nothing of a frame is read but how
//! long it is and whether it closes. Without I/O.

/// One direction of a WebSocket connection, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Bytes of the present frame's head.
    seen: usize,
    /// How long that head is, once its second byte has come.
    head: usize,
    closing: bool,
    length: u64,
    /// Bytes of the present frame's payload that are still to come.
    left: u64,
    closed: bool,
    lost: bool,
}

const CLOSE: u8 = 8;

impl Frames {
    /// Goes on to the end of the present frame, or as far as these bytes reach; how many that were.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        if self.lost {
            return bytes.len();
        }
        let mut at = 0;
        while at < bytes.len() {
            if self.left == 0 {
                self.head_byte(bytes[at]);
                at += 1;
            } else {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.left -= count as u64;
                at += count;
            }
            if self.is_between() {
                return at;
            }
        }
        at
    }

    fn head_byte(&mut self, byte: u8) {
        self.seen += 1;
        match self.seen {
            1 => self.closing = byte & 0x0f == CLOSE,
            2 => {
                let (bytes, length) = match byte & 0x7f {
                    126 => (2, 0),
                    127 => (8, 0),
                    short => (0, short.into()),
                };
                self.length = length;
                // A mask stands behind the length.
                self.head = 2 + bytes + if byte & 0x80 == 0 { 0 } else { 4 };
            }
            seen if seen <= self.head - if self.is_masked() { 4 } else { 0 } => {
                self.length = self.length << 8 | u64::from(byte);
            }
            _ => {}
        }
        if self.seen >= 2 && self.seen == self.head {
            self.lost = self.length >> 63 == 1;
            self.closed |= self.closing;
            (self.left, self.seen, self.head) = (self.length, 0, 0);
        }
    }

    /// Heads without a mask have 2, 4 or 10 bytes.
    fn is_masked(&self) -> bool {
        !matches!(self.head, 2 | 4 | 10)
    }

    /// Whether the last frame has come to its end, and no other has begun.
    pub(super) fn is_between(&self) -> bool {
        self.seen == 0 && self.left == 0 && !self.lost
    }

    /// Whether this is no stream of frames.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether a frame that closes has come, after which none may follow.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, masked: bool, length: usize) -> Vec<u8> {
        let mask = if masked { 0x80 } else { 0 };
        let mut bytes = vec![first];
        match length {
            0..126 => bytes.push(mask | length as u8),
            126..0x1_0000 => {
                bytes.push(mask | 126);
                bytes.extend((length as u16).to_be_bytes());
            }
            _ => {
                bytes.push(mask | 127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.extend(vec![0x88; if masked { 4 } else { 0 } + length]);
        bytes
    }

    #[test]
    fn the_end_of_every_frame_is_found_however_the_stream_is_cut_h11() {
        for masked in [false, true] {
            let all: Vec<Vec<u8>> =
                [0, 1, 125, 126, 300, 0xffff, 0x1_0000].map(|length| frame(0x82, masked, length)).into();
            let stream = all.concat();
            let ends: Vec<usize> = all
                .iter()
                .scan(0, |end, frame| {
                    *end += frame.len();
                    Some(*end)
                })
                .collect();
            for piece in [1, 2, 3, 7, 1000, stream.len()] {
                let (mut frames, mut found, mut passed) = (Frames::default(), Vec::new(), 0);
                for bytes in stream.chunks(piece) {
                    let mut at = 0;
                    while at < bytes.len() {
                        at += frames.take(&bytes[at..]);
                        if frames.is_between() {
                            found.push(passed + at);
                        }
                    }
                    passed += bytes.len();
                }
                assert_eq!(found, ends, "masked: {masked}, {piece} bytes at a time");
                assert!(!frames.is_closed() && !frames.is_lost());
            }
        }
    }

    #[test]
    fn a_close_is_known_and_so_is_what_is_no_frame_h11() {
        let mut frames = Frames::default();
        frames.take(&frame(0x88, true, 2));
        assert!(frames.is_closed() && frames.is_between());
        let mut frames = Frames::default();
        let endless = [&[0x82, 127][..], &[0xff; 8], b"more"].concat();
        let mut at = 0;
        while at < endless.len() {
            at += frames.take(&endless[at..]);
        }
        assert!(frames.is_lost() && !frames.is_between());
    }
}

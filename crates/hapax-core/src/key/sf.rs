//! The part of RFC 9651 (structured field values) that an `Idempotency-Key` needs: one string item with
//! parameters.
//!
//! Parameters are checked and thrown away. Whatever the RFC calls a failure is one here, with the position
//! where reading stopped; what a key may consist of is not decided here.

/// Reads `"…"` and its parameters to the end of the value; the error is where reading stopped.
pub(super) fn string_item(value: &[u8]) -> Result<Vec<u8>, usize> {
    let mut input = Input { value, at: 0 };
    let text = input.string()?;
    input.parameters()?;
    if input.at == value.len() { Ok(text) } else { Err(input.at) }
}

struct Input<'a> {
    value: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn peek(&self) -> Option<u8> {
        self.value.get(self.at).copied()
    }

    /// Consumes one byte if it is wanted.
    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let byte = self.peek().filter(|b| wanted(*b))?;
        self.at += 1;
        Some(byte)
    }

    /// Consumes bytes as long as they are wanted and says how many there were.
    fn take_all(&mut self, wanted: impl Fn(u8) -> bool) -> usize {
        let start = self.at;
        while self.take(&wanted).is_some() {}
        self.at - start
    }

    fn expect(&mut self, wanted: impl Fn(u8) -> bool) -> Result<u8, usize> {
        self.take(wanted).ok_or(self.at)
    }

    /// RFC 9651 §4.2.5.
    fn string(&mut self) -> Result<Vec<u8>, usize> {
        self.expect(|b| b == b'"')?;
        let mut text = Vec::with_capacity(self.value.len());
        loop {
            match self.expect(|b| (0x20..=0x7e).contains(&b))? {
                b'"' => return Ok(text),
                b'\\' => text.push(self.expect(|b| matches!(b, b'"' | b'\\'))?),
                byte => text.push(byte),
            }
        }
    }

    /// RFC 9651 §4.2.3.2.
    fn parameters(&mut self) -> Result<(), usize> {
        while self.take(|b| b == b';').is_some() {
            self.take_all(|b| b == b' ');
            self.expect(|b| b.is_ascii_lowercase() || b == b'*')?;
            self.take_all(is_parameter_name);
            if self.take(|b| b == b'=').is_some() {
                self.bare_item()?;
            }
        }
        Ok(())
    }

    /// RFC 9651 §4.2.3.1. The value is not needed, only where it ends.
    fn bare_item(&mut self) -> Result<(), usize> {
        match self.peek().ok_or(self.at)? {
            b'"' => self.string().map(drop),
            b':' => self.byte_sequence(),
            b'?' => self.boolean(),
            b'@' => self.date(),
            b'%' => self.display_string(),
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                self.take_all(is_token);
                Ok(())
            }
            _ => Err(self.at),
        }
    }

    /// RFC 9651 §4.2.4: at most 15 digits, or 12 before and 3 after the point. Says if it is an integer.
    fn number(&mut self) -> Result<bool, usize> {
        self.take(|b| b == b'-');
        let start = self.at;
        let whole = self.take_all(|b| b.is_ascii_digit());
        if whole == 0 || whole > 15 {
            return Err(start);
        }
        if self.take(|b| b == b'.').is_none() {
            return Ok(true);
        }
        let fraction = self.take_all(|b| b.is_ascii_digit());
        if whole > 12 || fraction == 0 || fraction > 3 { Err(self.at) } else { Ok(false) }
    }

    /// RFC 9651 §4.2.7. Padding is optional when reading, as the RFC recommends.
    fn byte_sequence(&mut self) -> Result<(), usize> {
        self.expect(|b| b == b':')?;
        let digits = self.take_all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'));
        let padding = self.take_all(|b| b == b'=');
        let fits = digits % 4 != 1 && (padding == 0 || (padding < 3 && (digits + padding).is_multiple_of(4)));
        self.expect(|b| b == b':' && fits).map(drop)
    }

    /// RFC 9651 §4.2.8.
    fn boolean(&mut self) -> Result<(), usize> {
        self.expect(|b| b == b'?')?;
        self.expect(|b| matches!(b, b'0' | b'1')).map(drop)
    }

    /// RFC 9651 §4.2.9: an integer, never a decimal.
    fn date(&mut self) -> Result<(), usize> {
        self.expect(|b| b == b'@')?;
        if self.number()? { Ok(()) } else { Err(self.at) }
    }

    /// RFC 9651 §4.2.10: `%"…"` with lower-case percent escapes that decode to UTF-8.
    fn display_string(&mut self) -> Result<(), usize> {
        self.expect(|b| b == b'%')?;
        self.expect(|b| b == b'"')?;
        let mut decoded = Vec::new();
        loop {
            match self.expect(|b| (0x20..=0x7e).contains(&b))? {
                b'"' => return std::str::from_utf8(&decoded).map(drop).map_err(|_| self.at),
                b'%' => decoded.push(self.lower_hex()? << 4 | self.lower_hex()?),
                byte => decoded.push(byte),
            }
        }
    }

    fn lower_hex(&mut self) -> Result<u8, usize> {
        match self.expect(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))? {
            digit @ b'0'..=b'9' => Ok(digit - b'0'),
            letter => Ok(letter - b'a' + 10),
        }
    }
}

/// RFC 9651 §3.1.2.
fn is_parameter_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
}

/// RFC 9651 §3.3.4: `tchar`, `:` and `/`.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

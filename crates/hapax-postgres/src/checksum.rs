//! CRC-32 (IEEE) of kept bytes, so that what comes back is known to be what went in.

/// The checksum, as the signed number that PostgreSQL keeps.
pub(super) fn crc32(bytes: &[u8]) -> i32 {
    crc32fast::hash(bytes).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard_comes_out() {
        assert_eq!(crc32(b"123456789").cast_unsigned(), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}

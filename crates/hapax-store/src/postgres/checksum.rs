//! CRC-32 (IEEE) of kept bytes, so that what comes back is known to be what went in.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ 0xedb8_8320 } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

/// The checksum, as the signed number that PostgreSQL keeps.
pub(super) fn crc32(bytes: &[u8]) -> i32 {
    let rest = bytes.iter().fold(u32::MAX, |rest, byte| TABLE[usize::from(rest as u8 ^ byte)] ^ (rest >> 8));
    (!rest).cast_signed()
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

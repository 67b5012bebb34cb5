//! Bytes that come in pieces. The first byte of an input says how the rest is cut.

/// The most bytes of one input that are looked at.
const LONGEST: usize = 8 << 10;

/// How the rest is cut, and the rest.
pub(crate) fn split(input: &[u8]) -> (u8, &[u8]) {
    match input.split_first() {
        Some((cut, rest)) => (*cut, &rest[..rest.len().min(LONGEST)]),
        None => (0, &[]),
    }
}

/// The pieces of a stream: byte by byte, halves, or of lengths that look random and depend on `cut` alone.
pub(crate) fn pieces(stream: &[u8], cut: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(cut);
    let mut rest = stream;
    std::iter::from_fn(move || {
        let length = match cut {
            0 => 1,
            1 => stream.len().div_ceil(2),
            _ => {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Mostly short, and now and then longer than most heads.
                1 + (state >> 24) as usize % (1 + usize::from(cut))
            }
        };
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

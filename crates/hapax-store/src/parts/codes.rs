//! What stores write for the words of a claim: a number where a column has numbers, a letter where people read it.
//!
//! The table is the format: what is in it is on somebody's disk, and never changes.

use std::time::Duration;

use hapax_core::claim::{DoubtThen, SettledBy};
use hapax_core::{Doubt, Outcome, Ran, Rerun, StateName};

/// A word that stores keep as a number.
pub trait Numbered: Copy + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// Its number.
    fn number(self) -> i64;

    /// The one with this number.
    fn of_number(number: i64) -> Option<Self>;
}

/// One that stores can keep as a letter, too.
pub trait Lettered: Numbered {
    /// Its letter.
    fn letter(self) -> u8;

    /// The one with this letter.
    fn of_letter(letter: u8) -> Option<Self>;
}

macro_rules! codes {
    ($($type:ident: $($word:ident = $number:literal $($letter:literal)?),+;)+) => {
        $(
            impl Numbered for $type {
                const ALL: &'static [Self] = &[$($type::$word),+];

                #[inline]
                fn number(self) -> i64 {
                    match self {
                        $($type::$word => $number,)+
                    }
                }

                #[inline]
                fn of_number(number: i64) -> Option<Self> {
                    match number {
                        $($number => Some($type::$word),)+
                        _ => None,
                    }
                }
            }

            codes!(@ $type $($word $($letter)?),+);
        )+
    };
    (@ $type:ident $($word:ident $letter:literal),+) => {
        impl Lettered for $type {
            #[inline]
            fn letter(self) -> u8 {
                match self {
                    $($type::$word => $letter,)+
                }
            }

            #[inline]
            fn of_letter(letter: u8) -> Option<Self> {
                match letter {
                    $($letter => Some($type::$word),)+
                    _ => None,
                }
            }
        }
    };
    (@ $type:ident $($word:ident),+) => {};
}

// Most numbers start at 2, because SQLite stores 0 and 1 in no bytes at all, and a row should not grow when its state changes.
codes! {
    StateName: Held = 2 b'H', Settled = 3 b'S', InDoubt = 4 b'D', Released = 5 b'R';
    SettledBy: Holder = 2 b'h', Operator = 3 b'o';
    Doubt: Lapsed = 2 b'l', Failed = 3 b'f', Stated = 4 b's', Paused = 5 b'p';
    Ran: No = 2 b'n', Perhaps = 3 b'p', Waived = 4 b'w';
    OutcomeKind: Succeeded = 3 b'S', Refused = 4 b'R', NotKept = 5 b'N', Erased = 6 b'E';
    Rerun: Safe = 1, Ask = 2, Unsafe = 3;
    DoubtThen: Release = 1, Forget = 2;
}

/// What an outcome is, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeKind {
    /// [`Outcome::Succeeded`]
    Succeeded,
    /// [`Outcome::Refused`]
    Refused,
    /// [`Outcome::NotKept`]
    NotKept,
    /// [`Outcome::Erased`]
    Erased,
}

impl From<&Outcome> for OutcomeKind {
    #[inline]
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Succeeded(_) => OutcomeKind::Succeeded,
            Outcome::Refused(_) => OutcomeKind::Refused,
            Outcome::NotKept { .. } => OutcomeKind::NotKept,
            Outcome::Erased => OutcomeKind::Erased,
        }
    }
}

/// A duration as whole microseconds; one that is too long to count lasts for ever.
#[inline]
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<W: Numbered>() -> Vec<i64> {
        W::ALL.iter().map(|word| word.number()).collect()
    }

    fn letters<W: Lettered>() -> String {
        W::ALL.iter().map(|word| char::from(word.letter())).collect()
    }

    #[test]
    fn what_is_on_disk_is_what_it_always_was() {
        assert_eq!(StateName::ALL.as_slice(), <StateName as Numbered>::ALL);
        assert_eq!((numbers::<StateName>(), letters::<StateName>()), (vec![2, 3, 4, 5], "HSDR".into()));
        assert_eq!((numbers::<SettledBy>(), letters::<SettledBy>()), (vec![2, 3], "ho".into()));
        assert_eq!((numbers::<Doubt>(), letters::<Doubt>()), (vec![2, 3, 4, 5], "lfsp".into()));
        assert_eq!((numbers::<Ran>(), letters::<Ran>()), (vec![2, 3, 4], "npw".into()));
        assert_eq!((numbers::<OutcomeKind>(), letters::<OutcomeKind>()), (vec![3, 4, 5, 6], "SRNE".into()));
        assert_eq!((numbers::<Rerun>(), numbers::<DoubtThen>()), (vec![1, 2, 3], vec![1, 2]));
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        fn number<W: Numbered + PartialEq + std::fmt::Debug>() {
            for word in W::ALL {
                assert_eq!(W::of_number(word.number()), Some(*word));
            }
            assert_eq!([i64::MIN, -1, 0, 7, i64::MAX].map(W::of_number), [const { None }; 5]);
        }
        fn letter<W: Lettered + PartialEq + std::fmt::Debug>() {
            number::<W>();
            for word in W::ALL {
                assert_eq!(W::of_letter(word.letter()), Some(*word));
            }
            assert_eq!([0, b'-', b'x', 255].map(W::of_letter), [const { None }; 4]);
        }
        letter::<StateName>();
        letter::<SettledBy>();
        letter::<Doubt>();
        letter::<Ran>();
        letter::<OutcomeKind>();
        number::<Rerun>();
        number::<DoubtThen>();
    }
}

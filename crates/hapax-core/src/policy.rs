//! What a route demands of a key (P1).

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// What a route demands of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The caller must send a key.
    RequiredA,
    /// The key is found in the transport, such as a webhook's delivery id; without one the request is refused.
    RequiredB,
    /// The caller may send a key; without one the request goes through unprotected.
    Accepted,
    /// The handler behind the route derives a key of its own: the header has no effect and is not forwarded.
    HandlerInternalC,
    /// A key is refused.
    Prohibited,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 5] =
        [Self::RequiredA, Self::RequiredB, Self::Accepted, Self::HandlerInternalC, Self::Prohibited];

    /// The word used in configurations, documents and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequiredA => "REQUIRED_A",
            Self::RequiredB => "REQUIRED_B",
            Self::Accepted => "ACCEPTED",
            Self::HandlerInternalC => "HANDLER_INTERNAL_C",
            Self::Prohibited => "PROHIBITED",
        }
    }

    /// Whether a request can have a key here, so that the route needs an operation to keep it under (K6).
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::RequiredA | Self::RequiredB | Self::Accepted)
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word).ok_or_else(|| {
            Error::invalid(
                "no such policy: use REQUIRED_A, REQUIRED_B, ACCEPTED, HANDLER_INTERNAL_C or PROHIBITED",
            )
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_reads_back_as_it_is_written() {
        for policy in Policy::ALL {
            assert_eq!(policy.as_str().parse::<Policy>().unwrap(), policy);
        }
        assert!("required_a".parse::<Policy>().is_err());
    }
}

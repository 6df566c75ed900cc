//! Versions of the protocol, and their negotiation.

use std::fmt;

/// A version of OpenFlow that messages can be written in.
///
/// There is no 1.1 and no 1.2: peers that speak one of them speak 1.0 or 1.3, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// OpenFlow 1.0: one struct for matches, no instructions, no groups.
    V10,
    /// OpenFlow 1.3.
    V13,
    /// OpenFlow 1.4: properties, bundles.
    V14,
    /// OpenFlow 1.5: packet types, statistics as fields.
    V15,
}

impl Version {
    /// Every version, the oldest first.
    pub const ALL: [Version; 4] = [Version::V10, Version::V13, Version::V14, Version::V15];

    /// The number in the first byte of a message.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Version::V10 => 1,
            Version::V13 => 4,
            Version::V14 => 5,
            Version::V15 => 6,
        }
    }

    /// The version with this number, when it is one of ours.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.number() == number)
    }

    /// Returns the version that two sides agree on by their hellos.
    ///
    /// `ours` are the versions spoken here. The other side's hello has its greatest version in the
    /// header, and perhaps a bitmap of all it speaks. With a bitmap it is the greatest both have;
    /// without, the smaller of the two greatest, if that is spoken here.
    #[must_use]
    pub fn agree(ours: &[Version], greatest: u8, bitmap: Option<&[u32]>) -> Option<Version> {
        let theirs = |version: &Version| match bitmap {
            Some(words) => {
                let bit = u32::from(version.number());
                words.get(bit as usize / 32).is_some_and(|word| word >> (bit % 32) & 1 == 1)
            }
            None => true,
        };
        let best = ours.iter().copied().filter(theirs).max();
        if bitmap.is_some() {
            return best;
        }
        let smaller = greatest.min(best?.number());
        ours.iter().copied().find(|version| version.number() == smaller)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Version::V10 => "1.0",
            Version::V13 => "1.3",
            Version::V14 => "1.4",
            Version::V15 => "1.5",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_agree_on_a_version() {
        let ours = Version::ALL;
        // Bits are numbers of versions: 0x3a has 1, 3, 4 and 5.
        assert_eq!(Version::agree(&ours, 5, Some(&[0x3a])), Some(Version::V14));
        assert_eq!(Version::agree(&ours, 6, Some(&[0x02])), Some(Version::V10));
        assert_eq!(Version::agree(&ours, 6, Some(&[0x0c])), None, "1.1 and 1.2 alone");
        assert_eq!(Version::agree(&ours, 6, Some(&[])), None);
        assert_eq!(Version::agree(&ours, 4, None), Some(Version::V13));
        assert_eq!(Version::agree(&ours, 3, None), None, "the smaller is 1.2");
        assert_eq!(Version::agree(&ours, 200, None), Some(Version::V15));
        assert_eq!(Version::agree(&[Version::V13], 1, None), None);
        assert_eq!(Version::agree(&[], 4, None), None);
    }
}

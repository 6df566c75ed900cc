//! Frame sizes of generated traffic.
//!
//! Sizes here and on the command line are those of RFC 2544: Ethernet frames
//! from the destination address to the FCS. Ports count without the four bytes
//! of FCS, which the interface adds.

use std::{fmt, str::FromStr};

/// Length of the frame check sequence, in bytes.
pub const FCS: usize = 4;
/// The simple internet mix: sizes with their parts of 48.
pub const IMIX: [(usize, usize); 3] = [(64, 28), (570, 16), (1518, 4)];

/// Smallest and largest size a description may name.
const SIZE_RANGE: std::ops::RangeInclusive<usize> = 64..=65_000;
/// Most different sizes of a sweep.
const SIZES_MAX: usize = 4096;

/// The sizes of successive frames, repeated for ever.
///
/// Written as one size (`64`), a list (`64,128,1518`), a sweep with an
/// optional step (`64-1518/64`), or `imix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    text: String,
    sizes: Vec<usize>,
}

impl Sizes {
    /// The sizes in their order, FCS included.
    pub fn all(&self) -> &[usize] {
        &self.sizes
    }

    /// The largest.
    pub fn largest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// The smallest.
    pub fn smallest(&self) -> usize {
        self.sizes.iter().copied().min().unwrap_or(0)
    }

    /// Mean size in bytes, FCS included.
    pub fn mean(&self) -> f64 {
        self.sizes.iter().sum::<usize>() as f64 / self.sizes.len() as f64
    }
}

/// The mix spread evenly: at each place the size that is most behind its part.
fn imix() -> Vec<usize> {
    let total: usize = IMIX.iter().map(|(_, part)| part).sum();
    let mut sent = [0; IMIX.len()];
    (1..=total)
        .map(|place| {
            let behind =
                |index: usize| (IMIX[index].1 * place) as isize - (sent[index] * total) as isize;
            let next = (0..IMIX.len()).max_by_key(|&index| behind(index)).unwrap_or(0);
            sent[next] += 1;
            IMIX[next].0
        })
        .collect()
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let wrong = || {
            format!(
                "{text:?} are not sizes: write 64, a list 64,128,1518, a sweep 64-1518/64, or imix"
            )
        };
        let number = |text: &str| -> Result<usize, String> {
            let size = text.trim().parse().map_err(|_| wrong())?;
            if SIZE_RANGE.contains(&size) {
                return Ok(size);
            }
            let (low, high) = (SIZE_RANGE.start(), SIZE_RANGE.end());
            Err(format!("a frame of {size} bytes: sizes with FCS are {low} to {high}"))
        };
        let too_many = || format!("{text:?}: at most {SIZES_MAX} sizes are possible");
        let mut sizes = Vec::new();
        if text.eq_ignore_ascii_case("imix") {
            sizes = imix();
        } else {
            for part in text.split(',') {
                let Some((first, rest)) = part.split_once('-') else {
                    sizes.push(number(part)?);
                    if sizes.len() > SIZES_MAX {
                        return Err(too_many());
                    }
                    continue;
                };
                let (last, step) = rest.split_once('/').unwrap_or((rest, "1"));
                let step: usize = step.trim().parse().map_err(|_| wrong())?;
                let (first, last) = (number(first)?, number(last)?);
                if step == 0 || first > last {
                    return Err(wrong());
                }
                let sweep = (first..=last).step_by(step);
                sizes.extend(sweep.take(SIZES_MAX + 1));
                if sizes.len() > SIZES_MAX {
                    return Err(too_many());
                }
            }
        }
        Ok(Sizes { text: text.into(), sizes })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<usize> {
        text.parse::<Sizes>().unwrap().sizes
    }

    #[test]
    fn lists_and_sweeps() {
        assert_eq!(sizes("64"), [64]);
        assert_eq!(sizes("64,1518, 128"), [64, 1518, 128]);
        assert_eq!(sizes("64-256/64"), [64, 128, 192, 256]);
        assert_eq!(sizes("64-66"), [64, 65, 66]);
    }

    #[test]
    fn imix_has_its_parts_and_spreads_them() {
        let sizes = sizes("imix");
        for (size, part) in IMIX {
            assert_eq!(sizes.iter().filter(|&&s| s == size).count(), part);
        }
        let longest_run = sizes.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap();
        assert!(longest_run <= 3, "{sizes:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "63", "70000", "x", "64-", "128-64", "64-128/0", "64,,65", "64-65000"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}

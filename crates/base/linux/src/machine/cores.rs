//! Lists of processor cores, as people and the kernel write them: `0,2-5`.

/// Cores are numbered below this: the most a Linux kernel can be built for.
const CORE_LIMIT: u32 = 8192;

/// A list of cores that cannot be used as written.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoreListError {
    /// Nothing is listed.
    #[error("the list of cores is empty; write for example 0,2-5")]
    Empty,
    /// A part is neither a number nor a range.
    #[error("core list {list:?}: {part:?} is neither a core nor a range; write for example 0,2-5")]
    Syntax {
        /// The list.
        list: String,
        /// The part.
        part: String,
    },
    /// A range ends before it starts.
    #[error("core list {list:?}: range {part} ends before it starts")]
    Backwards {
        /// The list.
        list: String,
        /// The range.
        part: String,
    },
    /// A core number no Linux machine has.
    #[error("core list {list:?}: core {core} is beyond {max}", max = CORE_LIMIT - 1)]
    Beyond {
        /// The list.
        list: String,
        /// The core.
        core: u32,
    },
    /// A core is listed twice.
    #[error("core list {list:?}: core {core} is given twice")]
    Repeated {
        /// The list.
        list: String,
        /// The core.
        core: u32,
    },
}

/// Reads a list of cores. Order is kept: the first worker gets the first core.
///
/// # Errors
///
/// When it is empty, malformed or names a core twice.
pub fn parse_cores(list: &str) -> Result<Vec<u32>, CoreListError> {
    if list.trim().is_empty() {
        return Err(CoreListError::Empty);
    }
    let mut cores = Vec::new();
    let mut seen = vec![false; CORE_LIMIT as usize];
    for part in list.trim().split(',') {
        let part = part.trim();
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Some(first), Some(last)) = (core(first), core(last)) else {
            return Err(CoreListError::Syntax { list: list.into(), part: part.into() });
        };
        if last < first {
            return Err(CoreListError::Backwards { list: list.into(), part: part.into() });
        }
        if last >= CORE_LIMIT {
            return Err(CoreListError::Beyond { list: list.into(), core: last });
        }
        for core in first..=last {
            if std::mem::replace(&mut seen[core as usize], true) {
                return Err(CoreListError::Repeated { list: list.into(), core });
            }
            cores.push(core);
        }
    }
    Ok(cores)
}

/// Writes a list of cores, runs of three and more as ranges.
pub fn format_cores(cores: &[u32]) -> String {
    let mut parts = Vec::new();
    let mut rest = cores;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|(core, next)| **core == *next).count();
        let run = if run < 3 { 1 } else { run };
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", rest[run - 1]),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

/// The list in a file of the kernel's, where nothing means no cores.
pub(super) fn kernel_list(text: &str) -> Option<Vec<u32>> {
    match parse_cores(text) {
        Ok(cores) => Some(cores),
        Err(CoreListError::Empty) => Some(Vec::new()),
        Err(_) => None,
    }
}

/// Digits only: `parse` would also take a plus sign.
fn core(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_people_write() {
        for (list, cores) in [
            ("0", vec![0]),
            ("0,2-5", vec![0, 2, 3, 4, 5]),
            ("5, 1 ,3", vec![5, 1, 3]),
            ("7-7", vec![7]),
            ("0-1,8191\n", vec![0, 1, 8191]),
        ] {
            assert_eq!(parse_cores(list).unwrap(), cores, "{list}");
        }
    }

    #[test]
    fn lists_that_are_refused() {
        for (list, message) in [
            ("", "the list of cores is empty; write for example 0,2-5"),
            ("0,", "core list \"0,\": \"\" is neither a core nor a range; write for example 0,2-5"),
            ("a", "core list \"a\": \"a\" is neither a core nor a range; write for example 0,2-5"),
            (
                "1-2-3",
                "core list \"1-2-3\": \"1-2-3\" is neither a core nor a range; write for example 0,2-5",
            ),
            (
                "-1",
                "core list \"-1\": \"-1\" is neither a core nor a range; write for example 0,2-5",
            ),
            (
                "+1",
                "core list \"+1\": \"+1\" is neither a core nor a range; write for example 0,2-5",
            ),
            (
                "4294967296",
                "core list \"4294967296\": \"4294967296\" is neither a core nor a range; write for example 0,2-5",
            ),
            ("5-2", "core list \"5-2\": range 5-2 ends before it starts"),
            ("0-4294967295", "core list \"0-4294967295\": core 4294967295 is beyond 8191"),
            ("1-3,2", "core list \"1-3,2\": core 2 is given twice"),
        ] {
            assert_eq!(parse_cores(list).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_kernel_writes_nothing_for_none() {
        assert_eq!(kernel_list("\n"), Some(vec![]));
        assert_eq!(kernel_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(kernel_list("garbage"), None);
    }

    proptest! {
        #[test]
        fn printed_cores_are_read(cores in prop::collection::hash_set(0..CORE_LIMIT, 1..60),
                                   run in 0u32..100, length in 0u32..40) {
            let mut cores: Vec<u32> = cores.into_iter().filter(|core| *core >= 200).collect();
            cores.extend(run..=run + length);
            prop_assert_eq!(parse_cores(&format_cores(&cores)).unwrap(), cores);
        }

        #[test]
        fn no_text_panics(text in "[-0-9, +a]{0,30}|\\PC{0,30}") {
            if let Ok(cores) = parse_cores(&text) {
                prop_assert!(!cores.is_empty());
                prop_assert!(cores.iter().all(|core| *core < CORE_LIMIT));
            }
        }
    }
}

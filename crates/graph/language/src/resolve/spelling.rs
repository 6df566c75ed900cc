//! Suggestions for misspelt names of classes.

/// Longest name that is compared: that takes time in proportion to both names.
const COMPARED_MAX: usize = 100;

/// The candidate closest to `name`, if it is few edits away: one for names of up to five
/// characters, two up to eleven, three above. A transposition counts as one edit, a difference in
/// upper and lower case alone as none.
pub(super) fn closest_word<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let length = name.chars().count();
    if length > COMPARED_MAX {
        return None;
    }
    let allowed = match length {
        0..=5 => 1,
        6..=11 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name && candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| {
            let distance = if candidate.eq_ignore_ascii_case(name) {
                0
            } else {
                strsim::damerau_levenshtein(name, candidate)
            };
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_in_the_wrong_case() {
        let names = ["Queue", "Discard", "InfiniteSource", "Idle"];
        for (typed, meant) in [
            ("Qeue", Some("Queue")),
            ("queue", Some("Queue")),
            ("Discrad", Some("Discard")),
            ("InfinteSuorce", Some("InfiniteSource")),
            ("Counter", None),
            ("x", None),
        ] {
            assert_eq!(closest_word(typed, names), meant, "{typed}");
        }
    }
}

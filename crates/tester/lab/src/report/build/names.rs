//! Names of points, drivers and parameters in a report.

use crate::point::Pages;

pub(super) fn pages_name(pages: Pages) -> &'static str {
    match pages {
        Pages::Small => "4 KiB pages",
        Pages::Transparent => "transparent huge pages",
        Pages::Huge => "2 MiB pages",
    }
}

/// Sorting key that puts the numbers in texts in order: "burst 2" comes before "burst 16".
pub(super) fn natural(text: &str) -> Vec<(u64, char)> {
    let mut key = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits =
            rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let length = digits.max(first.len_utf8());
        // A number too long for this sorts last.
        let number = if digits > 0 { rest[..digits].parse().unwrap_or(u64::MAX) } else { 0 };
        key.push((number, if digits > 0 { '0' } else { first }));
        rest = &rest[length..];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts_are_in_order() {
        let mut texts = [
            "burst 16, load 0",
            "alone, burst 1",
            "burst 2, load 10",
            "burst 2, load 9",
            "burst 2",
        ];
        texts.sort_by_key(|text| natural(text));
        assert_eq!(
            texts,
            [
                "alone, burst 1",
                "burst 2",
                "burst 2, load 9",
                "burst 2, load 10",
                "burst 16, load 0"
            ]
        );
    }
}

//! Suggestions for misspelt names, by the kind of name.

/// The candidate closest to `name`, if it is close enough to be a slip of the
/// fingers: one edit (a transposition counts as one) for names up to five
/// characters, two above.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = if name.chars().count() > 5 { 2 } else { 1 };
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Likewise of keywords in capitals, which people abbreviate: their first letters count most.
pub fn closest_keyword<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_ascii_uppercase();
    let like = |name: &'a str| (strsim::jaro_winkler(&word, name), name);
    let best = candidates.into_iter().map(like).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness > 0.8).map(|(_, name)| name)
}

/// All candidates that have `name` in them, in upper or lower case, or are a slip or two away: the
/// very word, those that begin with it, a slip away, those with it as a word, more slips, and those
/// with it elsewhere; shorter ones first.
pub fn similar<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let rank = |known: &str| {
        let found = known.to_lowercase();
        let slips = strsim::damerau_levenshtein(known, name);
        match found.find(&lower) {
            Some(0) if found.len() == lower.len() => Some(0),
            Some(0) => Some(1),
            _ if slips == 1 => Some(2),
            Some(_) if has_word(known, &lower) => Some(3),
            _ if slips == 2 => Some(4),
            Some(_) => Some(5),
            None => None,
        }
    };
    let ranked = candidates.into_iter().filter_map(|known| Some((rank(known)?, known)));
    let mut ranked: Vec<(u8, &str)> = ranked.collect();
    ranked.sort_by_key(|(rank, known)| (*rank, known.len()));
    ranked.into_iter().map(|(_, known)| known).collect()
}

/// Returns true if a word of a name begins with `lower`: words begin with a capital, or behind a
/// character that is no letter or digit.
fn has_word(name: &str, lower: &str) -> bool {
    let chars: Vec<char> = name.chars().collect();
    (0..chars.len()).any(|at| {
        let begins = chars[at].is_uppercase() || at > 0 && !chars[at - 1].is_alphanumeric();
        begins && chars[at..].iter().collect::<String>().to_lowercase().starts_with(lower)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let names = ["lo", "eth0", "veth-a", "wlp3s0"];
        for (typed, meant) in [
            ("eht0", Some("eth0")),
            ("eth", Some("eth0")),
            ("ETH0", None),
            ("veth_b", Some("veth-a")),
            ("wlp2s1", Some("wlp3s0")),
            ("ol", Some("lo")),
            ("br0", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, names), meant, "{typed}");
        }
        assert_eq!(closest("x", []), None);
    }

    #[test]
    fn the_nearest_of_several_wins() {
        assert_eq!(closest("enp1s00", ["enp2s0", "enp1s0"]), Some("enp1s0"));
    }

    #[test]
    fn keywords_may_be_abbreviated() {
        let names = ["CAPACITY", "LIMIT", "BURST"];
        assert_eq!(closest_keyword("capac", names), Some("CAPACITY"));
        assert_eq!(closest_keyword("LIMTI", names), Some("LIMIT"));
        assert_eq!(closest_keyword("STOP", names), None);
    }

    #[test]
    fn parts_of_names_find_all_that_have_them() {
        let names = ["Queue", "ThreadSafeQueue", "Unqueue", "Tee"];
        assert_eq!(similar("queue", names), ["Queue", "ThreadSafeQueue", "Unqueue"]);
        let names = ["FrontDropQueue", "Unqueue", "QueueYank", "Queue", "Quota", "Tee"];
        assert_eq!(
            similar("queu", names)[..4],
            ["Queue", "QueueYank", "FrontDropQueue", "Unqueue"]
        );
        assert_eq!(similar("Teh", names), ["Tee"]);
    }
}

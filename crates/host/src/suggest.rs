//! The name somebody probably meant.

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
}

//! Elements of a configuration that stand for devices, and their replacements when packets come
//! from captures.

use super::text::Declaration;

/// Classes with an interface that must be there as their first argument.
const KERNEL: [&str; 2] = ["FromDevice", "ToDevice"];

/// Classes of devices that are mapped to ports of ours.
const MAPPED: [&str; 4] = ["FromDPDKDevice", "ToDPDKDevice", "FromNetmapDevice", "ToNetmapDevice"];

/// Classes that make the interface they name.
const TUNNELS: [&str; 2] = ["FromHost", "ToHost"];

/// Classes with a port of ours as their first argument.
const PORTS: [&str; 2] = ["FromPort", "ToPort"];

/// Classes that write packets to the file they name.
const WRITERS: [&str; 1] = ["ToDump"];

/// Classes with packets or sockets that no capture stands for, or with random choices.
const UNFIT: [&str; 23] = [
    "KernelTun",
    "KernelTap",
    "KernelFilter",
    "Socket",
    "FromSocket",
    "ToSocket",
    "RawSocket",
    "FromRawSocket",
    "ToRawSocket",
    "FromHost6",
    "ChatterSocket",
    "RED",
    "ARED",
    "RandomSample",
    "RandomSwitch",
    "RandomSource",
    "RandomBitErrors",
    "RandomSeed",
    "RandomError",
    "ToIPSummaryDump",
    "FromIPSummaryDump",
    "ToIPFlowDumps",
    "LinuxIPLookup",
];

/// Replacement of an element's class and arguments when a configuration runs on captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// It stays as it is.
    Itself,
    /// Packets come from the capture of this interface.
    Input(String),
    /// Packets go to a capture of their own.
    Output,
}

/// Names of the interfaces that must be there, each once.
pub(crate) fn interfaces(declarations: &[Declaration]) -> Vec<String> {
    names(declarations, &KERNEL)
}

/// Names of the devices to map, each once: where a name is a variable, its definition in the text.
pub(super) fn mapped(flat: &str, declarations: &[Declaration]) -> Vec<String> {
    let mut mapped = Vec::new();
    for name in names(declarations, &MAPPED) {
        let name = if name.starts_with('$') { defined(flat, &name) } else { Some(name) };
        mapped.extend(name.filter(|name| !mapped.contains(name)));
    }
    mapped
}

/// The word behind a variable where it is defined, which is where a word follows it.
fn defined(flat: &str, variable: &str) -> Option<String> {
    let behind = flat.split(variable).skip(1);
    let words = behind.filter(|rest| rest.starts_with(char::is_whitespace));
    let word = |rest: &str| {
        let word = rest.split_ascii_whitespace().next()?;
        Some(word.trim_matches([',', ')', ';', '"', '\'']).to_owned())
    };
    words.filter_map(word).find(|word| !word.is_empty() && !word.starts_with(['/', '-', '$']))
}

fn names(declarations: &[Declaration], classes: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    for declaration in declarations.iter().filter(|one| classes.contains(&one.class.as_str())) {
        // The argument may be named; no interface has a space in its name.
        let name = declaration.first().rsplit(' ').next().unwrap_or_default().to_owned();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the reason why a configuration cannot run on captures, if it cannot.
pub(super) fn unfit(declarations: &[Declaration]) -> Option<String> {
    let found = declarations.iter().find(|one| UNFIT.contains(&one.class.as_str()))?;
    Some(format!("{} has no capture to stand for it", found.class))
}

/// Returns the replacement of an element.
pub(crate) fn stand(declaration: &Declaration) -> Replacement {
    let class = declaration.class.as_str();
    let device = [KERNEL, TUNNELS, PORTS].iter().any(|classes| classes.contains(&class));
    if class == "FromDump" || (device && class.starts_with("From")) {
        Replacement::Input(declaration.first().to_owned())
    } else if device || WRITERS.contains(&class) {
        Replacement::Output
    } else {
        Replacement::Itself
    }
}

/// A rewriter that takes ports in sequence and not at random, in place of one that does not.
pub(crate) fn in_sequence(declaration: &Declaration) -> Option<String> {
    if !declaration.class.contains("Rewriter") {
        return None;
    }
    let words = |argument: &String| {
        let is_range = |word: &str| {
            let ends = word.split_once('-');
            ends.is_some_and(|(low, high)| [low, high].iter().all(|end| end.parse::<u16>().is_ok()))
        };
        let words = argument.split_whitespace();
        let words = words.map(|word| if is_range(word) { format!("{word}#") } else { word.into() });
        words.collect::<Vec<String>>().join(" ")
    };
    let arguments: Vec<String> = declaration.arguments.iter().map(words).collect();
    Some(format!("{}({})", declaration.class, arguments.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::text::declarations;
    use super::*;

    #[test]
    fn rewriters_take_ports_in_sequence() {
        let text = "r :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop); q :: Queue(1-2);";
        let found = declarations(text);
        let expected = "IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)";
        assert_eq!(in_sequence(&found[0]).as_deref(), Some(expected));
        assert_eq!(in_sequence(&found[1]), None);
    }

    #[test]
    fn devices_are_told_apart() {
        let text = "a :: FromDevice(eth0); b :: ToDevice(\"eth0\", BURST 8); c :: Queue; \
                    d :: FromDPDKDevice(0, 1); e :: ToHost(tap1); f :: FromDump(x.pcap);";
        let found = declarations(text);
        assert_eq!(interfaces(&found), ["eth0"]);
        assert_eq!(mapped(text, &found), ["0"]);
        let text = "d :: FromDPDKDevice(PORT 7, N_QUEUES 2);";
        assert_eq!(mapped(text, &declarations(text)), ["7"]);
        let text = "define($a 3 , $b 4); d :: FromDPDKDevice($b); e :: ToDPDKDevice(4);";
        assert_eq!(mapped(text, &declarations(text)), ["4"]);
        let stands: Vec<_> = found.iter().map(stand).collect();
        let input = |name: &str| Replacement::Input(name.to_owned());
        assert_eq!(stands[0], input("eth0"));
        assert_eq!(stands[1..4], [Replacement::Output, Replacement::Itself, Replacement::Itself]);
        assert_eq!(stands[4..], [Replacement::Output, input("x.pcap")]);
        assert_eq!(unfit(&found), None);
        assert!(unfit(&declarations("r :: RED(1, 2, 0.5)")).is_some());
    }
}

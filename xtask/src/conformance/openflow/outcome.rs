//! Outcome of each case, from the tester's output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Outcome of a case; with the reason, where it failed.
pub(super) type Outcome = Result<(), String>;

/// Cases with how they went, by their names.
pub(super) type Outcomes = BTreeMap<Case, Outcome>;

/// Identity of a case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Case {
    /// The tester's name of its file.
    pub(super) file: String,
    /// Its number in the file, from 1: two have one name now and then.
    pub(super) number: usize,
    /// Its name.
    pub(super) name: String,
}

/// Reads the tester's output: the title of a file in a line of its own, each case behind four
/// blanks with a word at the end, the reason of a failure behind eight.
pub(super) fn read(said: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let (mut file, mut number, mut last) = (String::new(), 0, None::<Case>);
    let begun = said.split_once("--- Test start ---").map_or("", |(_, rest)| rest);
    let end = begun.find("---  Test end  ---").unwrap_or(begun.len());
    for line in begun[..end].lines() {
        // It prints dots while it sends many packets.
        let line = line.trim_end().trim_start_matches(['.', '\r']);
        if let Some(reason) = line.strip_prefix("        ") {
            if let Some(Err(text)) = last.as_ref().and_then(|case| outcomes.get_mut(case)) {
                text.push_str(reason.trim());
            }
            continue;
        }
        let Some(rest) = line.strip_prefix("    ") else {
            if ["action: ", "match: ", "group: ", "meter: "].iter().any(|w| line.starts_with(w)) {
                (file, number) = (line.to_owned(), 0);
            }
            continue;
        };
        let passed = match rest.rsplit_once(' ') {
            Some((_, "OK")) => Ok(()),
            Some((_, "ERROR")) => Err(String::new()),
            _ => continue,
        };
        let name = rest.rsplit_once(' ').map_or("", |(name, _)| name.trim_end()).to_owned();
        number += 1;
        let case = Case { file: file.clone(), number, name };
        outcomes.insert(case.clone(), passed);
        last = Some(case);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tester_prints_is_read() {
        let said = "Test files directory = x\n--- Test start ---\nwaiting for switches connection...\n\
            dpid=0000000000000002 : Join tester SW.\nmatch: 00_IN_PORT\n\
            \x20   ethernet/arp-->'in_port=1,actions=output:2'            OK\n\
            \x20   ethernet/arp-->'in_port=2,actions=output:2'            ERROR\n\
            \x20       Receiving timeout: no packet-in.\n\
            group: 00_ALL\n\r..\r\n    2Mbps-->'in_port=1'      OK\n---  Test end  ---\n\
            \n--- Test report ---\nReceiving timeout(1)\n    match: 00_IN_PORT  ethernet OK\n";
        let read = read(said);
        let case =
            |file: &str, number, name: &str| Case { file: file.into(), number, name: name.into() };
        let expected = [
            (case("group: 00_ALL", 1, "2Mbps-->'in_port=1'"), Ok(())),
            (case("match: 00_IN_PORT", 1, "ethernet/arp-->'in_port=1,actions=output:2'"), Ok(())),
            (
                case("match: 00_IN_PORT", 2, "ethernet/arp-->'in_port=2,actions=output:2'"),
                Err("Receiving timeout: no packet-in.".into()),
            ),
        ];
        assert_eq!(read, Outcomes::from(expected));
    }
}

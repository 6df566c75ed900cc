use std::sync::Arc;

use super::*;
use crate::switch::{Switch, SwitchOptions};
use crate::wire::{FlowMod, Match, Version};

fn switch() -> Arc<Switch> {
    Switch::new(SwitchOptions { tables: 2, ..SwitchOptions::default() })
}

fn add(switch: &Switch, priority: u16) {
    let flow = FlowMod::add(0, priority, Match::new(), Vec::new());
    switch.flow_mod(&flow, Version::V13, 0).expect("added");
}

/// The priorities of the flows that a switch has that is started on these files.
fn restored(files: &Files) -> Vec<u16> {
    let (text, journal) = files.read().expect("read").expect("there is a text");
    let switch = switch();
    switch.restore(&text, &journal, 0).expect("restored");
    let tables = switch.snapshot();
    let mut priorities: Vec<_> = tables.flows(0).map(|flow| flow.priority).collect();
    priorities.sort_unstable();
    priorities
}

#[test]
fn a_journal_is_read_up_to_its_last_complete_change_wherever_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Files::new(&folder.path().join("state"));
    assert!(files.read().expect("read").is_none());
    let switch = switch();
    add(&switch, 1);
    let (changes, saved) = switch.begin_journal(Arc::new(|| {}));
    let number = files.next_number().expect("a number");
    let mut journal = Journal::create(&files, number, false).expect("created");
    files.write(&saved, number).expect("written");
    let mut ends = vec![journal.length];
    for priority in 2..6 {
        add(&switch, priority);
        journal.append(&changes.take()).expect("appended");
        ends.push(journal.length);
    }
    let path = files.journal(number);
    let whole = fs::read(&path).expect("a journal");
    assert_eq!(whole.len() as u64, journal.length);
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).expect("written");
        let complete = ends.iter().filter(|end| **end <= length as u64).count();
        let expected: Vec<u16> = (1..=complete.max(1) as u16).collect();
        assert_eq!(restored(&files), expected, "{length} of {} bytes", whole.len());
    }
    // Any damage ends it, too, and never makes another change of it.
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, &damaged).expect("written");
        let complete = ends.iter().filter(|end| **end <= at as u64).count();
        let expected: Vec<u16> = (1..=complete.max(1) as u16).collect();
        assert_eq!(restored(&files), expected, "byte {at} of {} is another", whole.len());
    }
}

#[test]
fn journals_follow_each_other_up_to_one_that_does_not_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Files::new(&folder.path().join("state"));
    let switch = switch();
    let (changes, saved) = switch.begin_journal(Arc::new(|| {}));
    files.write(&saved, 7).expect("written");
    assert_eq!(files.next_number().expect("a number"), 8, "one that was named");
    for (number, goes_on) in [(7, false), (8, true), (9, true), (10, false), (11, true)] {
        let mut journal = Journal::create(&files, number, goes_on).expect("created");
        add(&switch, number as u16);
        journal.append(&changes.take()).expect("appended");
    }
    assert_eq!(restored(&files), [7, 8, 9]);
    assert_eq!(files.next_number().expect("a number"), 12);
    // One that was not written completely ends it.
    let path = files.journal(8);
    let bytes = fs::read(&path).expect("a journal");
    fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    assert_eq!(restored(&files), [7]);
    fs::remove_file(&path).expect("removed");
    assert_eq!(restored(&files), [7]);
    // A text that was written by hand has no journal.
    files.delete_before(11);
    assert_eq!(files.journals().expect("listed"), [11]);
    fs::write(files.path(), "# Linerate flow switch, format 1\nflow 1.5 actions=drop\n")
        .expect("written");
    assert_eq!(restored(&files), [32768]);
}

#[test]
fn a_change_of_many_flows_is_one_change_in_several_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Files::new(&folder.path().join("state"));
    let switch = switch();
    let (changes, saved) = switch.begin_journal(Arc::new(|| {}));
    let mut journal = Journal::create(&files, 1, false).expect("created");
    files.write(&saved, 1).expect("written");
    let flow = |priority| {
        crate::wire::Message::FlowMod(FlowMod::add(0, priority, Match::new(), Vec::new()))
    };
    let all: Vec<_> = (0..30_000).map(|priority| Ok(flow(priority))).collect();
    switch.bundle(all, Version::V14, 0).expect("done");
    journal.append(&changes.take()).expect("appended");
    assert!(journal.len() > RECORD as u64);
    assert_eq!(restored(&files).len(), 30_000);
    let path = files.journal(1);
    let bytes = fs::read(&path).expect("a journal");
    fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    assert!(restored(&files).is_empty(), "all of it or nothing");
}

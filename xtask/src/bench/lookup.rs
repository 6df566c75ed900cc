//! Case `lookup`: longest-prefix matches beside DPDK's `rte_fib` and `rte_fib6`.
//!
//! Both sides read the same routes and look up the same addresses, and must give the same sum of
//! answers. The peer is measured with next hops of two and of four bytes, plain and with AVX-512, and
//! the faster of plain and AVX-512 counts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::ours::Ours;
use super::peers::{LookupCycles, Memory, Programs};
use super::restore::{RestoreOnDrop, unique_name};
use super::row::{Row, row};

/// Addresses looked up at once.
const BURST: u32 = 256;
const WIDE: &str = "rte_fib, 4 bytes";
const NARROW: &str = "rte_fib, 2 bytes";

/// A table with its files: their name, the rows of the two kinds of addresses, and of inserting: all
/// at once and one by one, in order as the peer is given them, and both one by one in another order.
struct Table {
    file: &'static str,
    few: &'static str,
    random: &'static str,
    insert: Option<[&'static str; 3]>,
    ipv6: bool,
    /// Whether next hops of two bytes can hold it.
    narrow: bool,
}

const TABLES: [Table; 6] = [
    Table {
        file: "one4",
        few: "ipv4 1, 64k",
        random: "ipv4 1, random",
        insert: None,
        ipv6: false,
        narrow: true,
    },
    Table {
        file: "random4",
        few: "ipv4 100k, 64k",
        random: "ipv4 100k, random",
        insert: None,
        ipv6: false,
        narrow: false,
    },
    Table {
        file: "internet4",
        few: "ipv4 1M, 64k",
        random: "ipv4 1M, random",
        insert: Some(["ipv4 1M, load", "ipv4 1M, add", "ipv4 1M, add mixed"]),
        ipv6: false,
        narrow: true,
    },
    Table {
        file: "one6",
        few: "ipv6 1, 64k",
        random: "ipv6 1, random",
        insert: None,
        ipv6: true,
        narrow: true,
    },
    Table {
        file: "random6",
        few: "ipv6 100k, 64k",
        random: "ipv6 100k, random",
        insert: None,
        ipv6: true,
        narrow: false,
    },
    Table {
        file: "internet6",
        few: "ipv6 200k, 64k",
        random: "ipv6 200k, random",
        insert: Some(["ipv6 200k, load", "ipv6 200k, add", "ipv6 200k, add mixed"]),
        ipv6: true,
        narrow: false,
    },
];

/// Programs and settings of the measurement.
pub(super) struct Lookups<'a> {
    pub(super) ours: &'a Ours,
    pub(super) programs: &'a Programs,
    pub(super) memory: &'a Memory,
    pub(super) window: Duration,
    pub(super) repetitions: u32,
}

impl Lookups<'_> {
    pub(super) fn measure(&self, rows: &mut Vec<Row>) -> Result<()> {
        let folder = std::env::temp_dir().join(unique_name());
        let _undo = {
            let folder = folder.clone();
            RestoreOnDrop::by(move || drop(std::fs::remove_dir_all(folder)))
        };
        self.ours.tables(&folder)?;
        for _ in 0..self.repetitions {
            for table in &TABLES {
                self.table(&folder, table, rows)?;
            }
        }
        Ok(())
    }

    fn table(&self, folder: &Path, table: &Table, rows: &mut Vec<Row>) -> Result<()> {
        let routes = folder.join(table.file).with_extension("routes");
        for (case, kind) in [(table.few, "few"), (table.random, "random")] {
            let files = [routes.clone(), folder.join(table.file).with_extension(kind)];
            let widths: &[(u32, &str)] =
                if table.narrow { &[(4, WIDE), (2, NARROW)] } else { &[(4, WIDE)] };
            for &(width, peer) in widths {
                let theirs = self.peer(table, &files, width)?;
                let ours = self.ours.lookup(table.ipv6, &files, BURST, self.window, false)?;
                ensure!(
                    ours.sum == theirs.sum,
                    "{case}: our answers sum to {}, those of rte_fib to {}",
                    ours.sum,
                    theirs.sum
                );
                let lookups = row(rows, case, BURST, peer);
                lookups.ours.push(ours.cycles.median);
                lookups.theirs.push(theirs.cycles.median);
                if let Some(rows_of_inserts) = table.insert.filter(|_| width == 4 && kind == "few")
                {
                    self.inserts(table, rows_of_inserts, &files, [&ours, &theirs], rows)?;
                }
            }
        }
        Ok(())
    }

    /// Cycles for each route; the measurement of the lookups has inserted them, too.
    fn inserts(
        &self,
        table: &Table,
        [load, add, add_mixed]: [&'static str; 3],
        files: &[PathBuf; 2],
        [ours, theirs]: [&LookupCycles; 2],
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let count = std::fs::metadata(&files[0])?.len() / if table.ipv6 { 24 } else { 12 };
        let each = |line: &LookupCycles| line.insert_seconds * line.cycles.tsc_hz / count as f64;
        let shortest = Duration::from_millis(1);
        let single = |files| self.ours.lookup(table.ipv6, files, BURST, shortest, true);
        let mixed = [files[0].with_extension("mixed"), files[1].clone()];
        let theirs_mixed = self.run_peer(table, &mixed, (4, false), shortest)?;
        let [ours_single, ours_mixed] = [single(files)?, single(&mixed)?];
        for (case, ours, theirs) in [
            (load, ours, theirs),
            (add, &ours_single, theirs),
            (add_mixed, &ours_mixed, &theirs_mixed),
        ] {
            let inserts = row(rows, case, 1, WIDE);
            inserts.ours.push(each(ours));
            inserts.theirs.push(each(theirs));
        }
        Ok(())
    }

    fn run_peer(
        &self,
        table: &Table,
        files: &[PathBuf; 2],
        form: (u32, bool),
        window: Duration,
    ) -> Result<LookupCycles> {
        let case = if table.ipv6 { "ipv6" } else { "ipv4" };
        self.programs.rte_lookup(self.memory, case, files, form, BURST, window)
    }

    /// The faster of plain and AVX-512.
    fn peer(&self, table: &Table, files: &[PathBuf; 2], width: u32) -> Result<LookupCycles> {
        let run = |vector| self.run_peer(table, files, (width, vector), self.window);
        let (plain, vector) = (run(false)?, run(true)?);
        Ok(if plain.cycles.median < vector.cycles.median { plain } else { vector })
    }
}

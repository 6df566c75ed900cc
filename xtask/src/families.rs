//! Packages that the unit tests of a family of elements compile.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use toml::Table;

use crate::shell;

/// Most other families whose elements the tests of one may use.
const OTHERS: usize = 6;

/// Our packages below `crates`: for each its dependencies, and those of its tests.
fn packages() -> BTreeMap<String, [BTreeSet<String>; 2]> {
    let inside = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = inside(shell::root().join("crates"));
    let folders = folders.flat_map(|folder| inside(folder.clone()).chain([folder]));
    let manifests = folders.map(|folder| folder.join("Cargo.toml"));
    let manifests = manifests.filter_map(|manifest| fs::read_to_string(manifest).ok());
    let packages = manifests.map(|text| {
        let manifest: Table = toml::from_str(&text).unwrap();
        let names = |section: &str| {
            let section = manifest.get(section).and_then(|section| section.as_table());
            section.into_iter().flat_map(|section| section.keys().cloned()).collect()
        };
        let name = manifest["package"]["name"].as_str().unwrap().to_owned();
        (name, ["dependencies", "dev-dependencies"].map(names))
    });
    packages.collect()
}

/// The packages that the tests of one compile.
fn compiled(packages: &BTreeMap<String, [BTreeSet<String>; 2]>, package: &str) -> BTreeSet<String> {
    let mut open: Vec<&String> = packages[package].iter().flatten().collect();
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        if let Some([needed, _]) = packages.get(name)
            && found.insert(name.clone())
        {
            open.extend(needed);
        }
    }
    found
}

/// One family is compiled for its tests, once, and few others; never the whole library.
#[test]
fn tests_of_a_family_compile_few_others() {
    const WHOLE: &str = "linerate-elements";
    const HARNESS: &str = "linerate-elements-testing";
    let packages = packages();
    let is_family = |name: &&String| {
        name.starts_with("linerate-elements-")
            && *name != HARNESS
            && packages[*name][1].contains(HARNESS)
    };
    let families: Vec<_> = packages.keys().filter(is_family).collect();
    assert!(families.len() >= 15, "{families:?}");
    for family in &families {
        let compiled = compiled(&packages, family);
        assert!(!compiled.contains(WHOLE), "{family} compiles the whole library");
        assert!(!compiled.contains(*family), "{family} is compiled twice");
        let others: Vec<_> = compiled.iter().filter(|name| families.contains(name)).collect();
        assert!(others.len() <= OTHERS, "{family} compiles {others:?}");
    }
    assert!(!compiled(&packages, HARNESS).iter().any(|name| families.contains(&name)));
}

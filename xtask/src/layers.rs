//! Inside a crate the top-level modules form layers: their imports have no cycle.
//!
//! The module tree is read from the sources, without tests. A path that begins with `crate` or `super` is an import of
//! the top-level module it leads into; a name that the crate's root re-exports counts as its module. Items of the
//! root itself belong to no module.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Imports between the top-level modules of a crate.
#[derive(Default)]
struct Imports {
    /// Names that the root re-exports, and their modules.
    exported: BTreeMap<String, String>,
    /// Paths of each top-level module, from the root on.
    paths: BTreeMap<String, BTreeSet<Vec<String>>>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// Returns true if an attribute's bracket says `cfg(test)`, alone or among others.
fn is_for_tests(attribute: &TokenTree) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text.starts_with("[cfg(test") || text.starts_with("[cfg(all(test")
}

/// The paths of a `use` without the keyword, its groups taken apart.
fn use_paths(tokens: &[TokenTree], prefix: &[String], found: &mut Vec<Vec<String>>) {
    for part in tokens.split(|token| is_punct(Some(token), ',')) {
        let mut path = prefix.to_vec();
        let mut tokens = part.iter();
        let end = loop {
            match tokens.next() {
                Some(TokenTree::Ident(word)) if *word == "as" => break None,
                Some(TokenTree::Ident(word)) => path.push(word.to_string()),
                Some(TokenTree::Group(group)) => break Some(group),
                Some(_) => {}
                None => break None,
            }
        };
        match end {
            Some(group) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                use_paths(&inner, &path, found);
            }
            None if path.len() > prefix.len() || path.len() == 1 => found.push(path),
            None => {}
        }
    }
}

impl Imports {
    fn of(folder: &Path) -> Imports {
        let mut imports = Imports::default();
        let source = folder.join("src");
        let root = ["lib.rs", "main.rs"].map(|name| source.join(name));
        let root = root.iter().find(|path| path.exists()).expect("a root");
        imports.read(root, &source, &[]);
        imports
    }

    /// Reads the file of a module, whose children are in a folder.
    fn read(&mut self, file: &Path, children: &Path, module: &[String]) {
        let text = fs::read_to_string(file).expect("a source file");
        let tokens = TokenStream::from_str(&text).expect("Rust");
        self.scan(tokens, children, module);
    }

    fn scan(&mut self, tokens: TokenStream, children: &Path, module: &[String]) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let next = tokens.get(at + 1);
            match (&tokens[at], ident(tokens.get(at)).as_deref()) {
                (TokenTree::Punct(punct), _)
                    if punct.as_char() == '#' && next.is_some_and(is_for_tests) =>
                {
                    // The item ends with its block or a semicolon.
                    let ends = |token: &TokenTree| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        token => is_punct(Some(token), ';'),
                    };
                    let item = tokens[at..].iter().position(ends);
                    at = item.map_or(tokens.len(), |length| at + length);
                }
                // Not `use<'a>` of a bound.
                (_, Some("use")) if !is_punct(next, '<') => {
                    let end = tokens[at..].iter().position(|token| is_punct(Some(token), ';'));
                    let end = end.map_or(tokens.len(), |length| at + length);
                    let mut found = Vec::new();
                    use_paths(&tokens[at + 1..end], &[], &mut found);
                    found.into_iter().for_each(|path| self.add(module, path));
                    at = end;
                }
                (_, Some("mod")) if next.is_some() => {
                    let name = ident(next).expect("a module has a name");
                    let inner = [module, std::slice::from_ref(&name)].concat();
                    match tokens.get(at + 2) {
                        Some(TokenTree::Group(group)) => {
                            self.scan(group.stream(), &children.join(&name), &inner);
                        }
                        _ => {
                            let folder = children.join(&name);
                            let files =
                                [children.join(format!("{name}.rs")), folder.join("mod.rs")];
                            let file = files.iter().find(|file| file.exists());
                            self.read(file.expect("the file of a module"), &folder, &inner);
                        }
                    }
                    at += 2;
                }
                (_, Some("crate" | "super")) if is_punct(next, ':') => {
                    let mut path = vec![ident(tokens.get(at)).expect("an identifier")];
                    while is_punct(tokens.get(at + 1), ':') && is_punct(tokens.get(at + 2), ':') {
                        let Some(word) = ident(tokens.get(at + 3)) else { break };
                        path.push(word);
                        at += 3;
                    }
                    self.add(module, path);
                }
                (TokenTree::Group(group), _) => self.scan(group.stream(), children, module),
                _ => {}
            }
            at += 1;
        }
    }

    /// Enters a path that a module names.
    fn add(&mut self, module: &[String], path: Vec<String>) {
        let depth = path.iter().take_while(|word| *word == "super").count();
        let path = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "super" if depth <= module.len() => {
                [&module[..module.len() - depth], &path[depth..]].concat()
            }
            "self" if module.is_empty() => path[1..].to_vec(),
            _ if module.is_empty() => path,
            _ => return,
        };
        match (module.first(), path.as_slice()) {
            (_, []) => {}
            (Some(module), _) => {
                self.paths.entry(module.clone()).or_default().insert(path);
            }
            (None, [first, .., last]) => {
                self.exported.insert(last.clone(), first.clone());
            }
            (None, _) => {}
        }
    }

    /// The modules that each module imports, with one path of each import.
    fn edges(&self) -> BTreeMap<&str, BTreeMap<&str, String>> {
        let mut edges: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
        for (module, paths) in &self.paths {
            for path in paths {
                let named = &path[0];
                let target = match self.paths.get_key_value(named) {
                    Some((target, _)) => target,
                    None => self.exported.get(named).unwrap_or(named),
                };
                if target != module && self.paths.contains_key(target) {
                    let text = path.join("::");
                    edges.entry(module).or_default().entry(target).or_insert(text);
                }
            }
        }
        edges
    }

    /// The modules that import themselves by way of others, with their imports among these.
    fn cyclic(&self) -> BTreeMap<&str, BTreeMap<&str, String>> {
        let mut edges = self.edges();
        let is_cyclic = |module: &&str| reached(&edges, module).contains(module);
        let cyclic: BTreeSet<&str> = edges.keys().copied().filter(is_cyclic).collect();
        edges.retain(|module, _| cyclic.contains(module));
        edges.values_mut().for_each(|targets| targets.retain(|name, _| cyclic.contains(name)));
        edges
    }
}

/// The modules that a module imports, directly or by way of others.
fn reached<'a>(
    edges: &BTreeMap<&'a str, BTreeMap<&'a str, String>>,
    from: &'a str,
) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        let imported = edges.get(module).into_iter().flat_map(BTreeMap::keys);
        next.extend(imported.copied().filter(|target| reached.insert(*target)));
    }
    reached
}

/// The folders of all crates of the workspace's `crates`, and this one.
fn crates() -> Vec<PathBuf> {
    let mut found = vec![repository().join("xtask")];
    let mut folders = vec![repository().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.join("src/lib.rs").exists() {
                found.push(path);
            } else if path.is_dir() && !path.join("Cargo.toml").exists() {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn modules_of_a_crate_form_layers() {
    let mut wrong = String::new();
    for folder in crates() {
        let imports = Imports::of(&folder);
        let cyclic = imports.cyclic();
        let name = folder.strip_prefix(repository()).expect("within").display().to_string();
        for (module, targets) in &cyclic {
            let targets: Vec<_> = targets.values().map(String::as_str).collect();
            wrong += &format!("{name}: {module} imports {}\n", targets.join(", "));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn imports_are_found_in_uses_and_paths() {
    let text = "use crate::{a::{B, c::D}, e as f}; use std::fs; pub(crate) fn g() -> super::h::I { crate::j::k() }
        #[cfg(test)] mod tests { use crate::never; } const C: &str = \"crate::string\"; // crate::comment";
    let mut imports = Imports::default();
    let module = ["m".to_owned()];
    imports.scan(TokenStream::from_str(text).expect("Rust"), Path::new(""), &module);
    let found: Vec<String> = imports.paths["m"].iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a::B", "a::c::D", "e", "h::I", "j::k"]);
    imports.add(&["a".into()], vec!["crate".into(), "m".into()]);
    assert_eq!(imports.cyclic().into_keys().collect::<Vec<_>>(), ["a", "m"]);
}

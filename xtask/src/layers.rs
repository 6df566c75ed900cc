//! Inside a crate the top-level modules form layers: their imports have no cycle.
//!
//! The module tree is read from the sources, without tests. A path that begins with `crate` or `super` is an import of
//! the top-level module it leads into; a name that the crate's root re-exports counts as its module. Items of the
//! root itself belong to no module. A test finds cycles; `cargo xtask documents` draws the layers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, mem,
    path::Path,
    str::FromStr,
};

use anyhow::{Context, Result, anyhow, bail};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Imports between the top-level modules of a crate.
#[derive(Default)]
struct Imports {
    /// The top-level modules.
    modules: BTreeSet<String>,
    /// Names that the root re-exports, and their modules.
    exported: BTreeMap<String, String>,
    /// Paths of each top-level module, from the root on.
    paths: BTreeMap<String, BTreeSet<Vec<String>>>,
}

/// The top-level modules of the crate in a folder by layer, the highest first: a module imports from lower layers alone.
///
/// # Errors
///
/// When modules import each other in a cycle, or when a source file cannot be read.
pub(crate) fn layers(folder: &Path) -> Result<Vec<Vec<String>>> {
    Imports::new(folder)?.layers().with_context(|| folder.display().to_string())
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
    /// Those of the crate in a folder.
    fn new(folder: &Path) -> Result<Imports> {
        let mut imports = Imports::default();
        let source = folder.join("src");
        let root = ["lib.rs", "main.rs"].map(|name| source.join(name));
        let root =
            root.iter().find(|path| path.exists()).context("no src/lib.rs or src/main.rs")?;
        imports.read(root, &source, &[])?;
        Ok(imports)
    }

    /// Reads the file of a module, whose children are in a folder.
    fn read(&mut self, file: &Path, children: &Path, module: &[String]) -> Result<()> {
        let shown = file.display();
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
        let tokens = TokenStream::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
        self.scan(tokens, children, module)
    }

    fn scan(&mut self, tokens: TokenStream, children: &Path, module: &[String]) -> Result<()> {
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
                    let name = ident(next).context("a module has no name")?;
                    let inner = [module, std::slice::from_ref(&name)].concat();
                    if module.is_empty() {
                        self.modules.insert(name.clone());
                    }
                    match tokens.get(at + 2) {
                        Some(TokenTree::Group(group)) => {
                            self.scan(group.stream(), &children.join(&name), &inner)?;
                        }
                        _ => {
                            let folder = children.join(&name);
                            let files =
                                [children.join(format!("{name}.rs")), folder.join("mod.rs")];
                            let file = files.iter().find(|file| file.exists());
                            let file = file.with_context(|| format!("no file of module {name}"))?;
                            self.read(file, &folder, &inner)?;
                        }
                    }
                    at += 2;
                }
                (_, Some("crate" | "super")) if is_punct(next, ':') => {
                    let mut path: Vec<String> = ident(tokens.get(at)).into_iter().collect();
                    while is_punct(tokens.get(at + 1), ':') && is_punct(tokens.get(at + 2), ':') {
                        let Some(word) = ident(tokens.get(at + 3)) else { break };
                        path.push(word);
                        at += 3;
                    }
                    self.add(module, path);
                }
                (TokenTree::Group(group), _) => self.scan(group.stream(), children, module)?,
                _ => {}
            }
            at += 1;
        }
        Ok(())
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
                let target = match self.modules.get(named) {
                    Some(target) => target,
                    None => self.exported.get(named).unwrap_or(named),
                };
                if target != module && self.modules.contains(target) {
                    let text = path.join("::");
                    edges.entry(module).or_default().entry(target).or_insert(text);
                }
            }
        }
        edges
    }

    /// The modules by layer, the highest first.
    fn layers(&self) -> Result<Vec<Vec<String>>> {
        let edges = self.edges();
        let mut left: BTreeSet<&str> = self.modules.iter().map(String::as_str).collect();
        let mut layers = Vec::new();
        while !left.is_empty() {
            let is_lowest = |module: &&str| {
                let mut imported = edges.get(module).into_iter().flat_map(BTreeMap::keys);
                !imported.any(|target| left.contains(target))
            };
            let (layer, above): (BTreeSet<&str>, BTreeSet<&str>) =
                left.iter().copied().partition(|module| is_lowest(module));
            if layer.is_empty() {
                bail!("modules import each other in a cycle:\n{}", cycle(&edges, left));
            }
            layers.push(layer.into_iter().map(str::to_owned).collect());
            left = above;
        }
        layers.reverse();
        Ok(layers)
    }
}

/// The imports within a cycle, of modules that import each other or from such ones.
fn cycle<'a>(
    edges: &BTreeMap<&'a str, BTreeMap<&'a str, String>>,
    mut modules: BTreeSet<&'a str>,
) -> String {
    loop {
        let imported = edges.iter().filter(|(module, _)| modules.contains(*module));
        let imported: BTreeSet<&str> =
            imported.flat_map(|(_, targets)| targets.keys().copied()).collect();
        let kept: BTreeSet<&str> = modules.intersection(&imported).copied().collect();
        if mem::replace(&mut modules, kept).len() == modules.len() {
            break;
        }
    }
    let imports = edges.iter().filter(|(module, _)| modules.contains(*module));
    let imports = imports.map(|(module, targets)| {
        let targets = targets.iter().filter(|(target, _)| modules.contains(*target));
        let paths: Vec<&str> = targets.map(|(_, path)| path.as_str()).collect();
        format!("{module} imports {}\n", paths.join(", "))
    });
    imports.collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::shell;

    /// The folders of all crates in the workspace's `crates` and `tests`, and this one.
    fn crates() -> Vec<PathBuf> {
        let mut found = vec![shell::root().join("xtask")];
        let mut folders = ["crates", "tests"].map(|name| shell::root().join(name)).to_vec();
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
        let faults = crates().into_iter().filter_map(|folder| layers(&folder).err());
        let faults: String = faults.map(|fault| format!("{fault:#}\n")).collect();
        assert!(faults.is_empty(), "{faults}");
    }

    #[test]
    fn imports_are_found_in_uses_and_paths() {
        let text = "use crate::{a::{B, c::D}, e as f}; use std::fs; pub(crate) fn g() -> super::h::I { crate::j::k() }
            #[cfg(test)] mod tests { use crate::never; } const C: &str = \"crate::string\"; // crate::comment";
        let mut imports = Imports::default();
        let module = ["m".to_owned()];
        let tokens = TokenStream::from_str(text).expect("Rust");
        imports.scan(tokens, Path::new(""), &module).expect("modules");
        let found: Vec<String> = imports.paths["m"].iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["a::B", "a::c::D", "e", "h::I", "j::k"]);
    }

    #[test]
    fn a_module_is_above_those_it_imports() {
        let modules = ["top", "middle", "base", "aside"].map(str::to_owned).into();
        let mut imports = Imports { modules, ..Imports::default() };
        let mut add = |module: &str, path: &str| {
            let path = path.split("::").map(str::to_owned).collect();
            imports.add(&[module.to_owned()], path);
        };
        add("top", "crate::middle::a");
        add("middle", "crate::base");
        add("top", "crate::Root");
        assert_eq!(imports.layers().unwrap(), [vec!["top"], vec!["middle"], vec!["aside", "base"]]);

        imports.add(&["base".into()], vec!["crate".into(), "middle".into(), "b".into()]);
        let fault = imports.layers().unwrap_err().to_string();
        let named = "base imports middle::b\nmiddle imports base\n";
        assert!(fault.ends_with(named), "{fault}");
    }
}

//! Parses the parts of a `Cargo.toml` that the checks need: the package name and its dependencies.
//!
//! This is not a full TOML parser. It accepts the plain form in which the manifests of this workspace are
//! written.

/// When a dependency is needed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// By the crate itself.
    Normal,
    /// By its tests.
    Dev,
    /// By its build script.
    Build,
}

/// One dependency.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Dependency {
    /// The package's name.
    pub(crate) name: String,
    /// When it is needed.
    pub(crate) kind: Kind,
    /// The condition of its table: `cfg(loom)`.
    pub(crate) target: Option<String>,
    /// Its line, counted from 1.
    pub(crate) line: usize,
}

/// The dependencies in `manifest`, in order.
pub(crate) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut table = None;
    for (i, text) in manifest.lines().enumerate() {
        if let Some(header) = header(text) {
            table = section(header);
            if let Some((kind, target, Some(name))) = &table {
                let (name, target) = (name.clone(), target.clone());
                found.push(Dependency { name, kind: *kind, target, line: i + 1 });
            }
        } else if let Some((kind, target, None)) = &table
            && let Some((key, value)) = text.split_once('=')
        {
            let key = key.split('.').next().unwrap_or(key).trim();
            let name = renamed(value).unwrap_or(key);
            let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            if !key.is_empty() && key.chars().all(is_key) {
                let (name, target) = (name.to_owned(), target.clone());
                found.push(Dependency { name, kind: *kind, target, line: i + 1 });
            }
        }
    }
    found
}

/// The name of the package that `manifest` describes.
pub(crate) fn name(manifest: &str) -> Option<&str> {
    let package = manifest.lines().skip_while(|line| header(line) != Some("package")).skip(1);
    let pairs = package.take_while(|line| header(line).is_none()).filter_map(|l| l.split_once('='));
    pairs.filter(|(key, _)| key.trim() == "name").find_map(|(_, value)| quoted(value))
}

/// The text between the brackets of a table header.
fn header(line: &str) -> Option<&str> {
    let line = line.split('#').next().unwrap_or(line).trim();
    line.strip_prefix('[')?.strip_suffix(']').map(|inner| inner.trim_matches(['[', ']']))
}

/// Kind and target of a dependency table with this header, and the dependency of a table for a single one.
fn section(header: &str) -> Option<(Kind, Option<String>, Option<String>)> {
    let (target, rest) = match header.strip_prefix("target.") {
        Some(rest) => {
            let at = rest.rfind("dependencies")?;
            // Skip `dev-` or `build-` backwards to the dot that ends the target.
            let dot = rest[..at].rfind('.')?;
            (Some(rest[..dot].trim_matches(['\'', '"']).to_owned()), &rest[dot + 1..])
        }
        None => (None, header),
    };
    let (kind, one) = match rest.split_once('.') {
        Some((kind, one)) => (kind, Some(one.trim_matches('"').to_owned())),
        None => (rest, None),
    };
    let kind = match kind {
        "dependencies" => Kind::Normal,
        "dev-dependencies" => Kind::Dev,
        "build-dependencies" => Kind::Build,
        _ => return None,
    };
    Some((kind, target, one))
}

/// The package name of a renamed dependency: `{ package = "name" }`.
fn renamed(value: &str) -> Option<&str> {
    quoted(value.split_once("package")?.1.trim_start().strip_prefix('=')?)
}

/// The first string in `value`.
fn quoted(value: &str) -> Option<&str> {
    value.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_dependencies_is_read() {
        let text = "[package] # first\nname = \"a\"\n[dependencies]\nb.workspace = true\n\
                    c = { version = \"1\", features = [\n  \"d=e\",\n] }\nf = { package = \"g\", path = \".\" }\n\
                    [target.'cfg(target_os = \"linux\")'.dev-dependencies]\nh = \"1\"\n\
                    [dependencies.i]\npath = \".\"\n[lints]\nworkspace = true\n\
                    [workspace.dependencies]\nj = \"1\"\n[build-dependencies]\nk = \"1\"\n";
        let found: Vec<_> =
            dependencies(text).into_iter().map(|d| (d.line, d.name, d.kind, d.target)).collect();
        let is_plain = |line, name: &str, kind| (line, name.to_owned(), kind, None);
        let linux = Some("cfg(target_os = \"linux\")".to_owned());
        assert_eq!(
            found,
            [
                is_plain(4, "b", Kind::Normal),
                is_plain(5, "c", Kind::Normal),
                is_plain(8, "g", Kind::Normal),
                (10, "h".to_owned(), Kind::Dev, linux),
                is_plain(11, "i", Kind::Normal),
                is_plain(18, "k", Kind::Build),
            ]
        );
        assert_eq!(name(text), Some("a"));
    }

    #[test]
    fn a_workspace_has_no_name() {
        assert_eq!(name("[workspace]\nname = \"a\"\n"), None);
    }
}

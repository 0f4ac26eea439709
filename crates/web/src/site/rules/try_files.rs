//! Files to try for paths that match no file, and redirects from names of pages to clean URLs.

use phalanx_http::path;

use crate::config::HostConfig;
use crate::site::rules::pattern::{Pattern, absolute};

/// Placeholder in a file name for the requested path.
const PATH_PLACEHOLDER: &str = "$path";
/// Suffix that clean URLs omit.
const PAGE_SUFFIX: &[u8] = b".html";

/// The files to try for paths of a host.
#[derive(Default)]
pub(crate) struct TryFiles {
    /// Whether the URLs of pages omit the suffix.
    pub(crate) clean_urls: bool,
    /// Names of index files, which clean URLs omit, too.
    index: Vec<String>,
    /// The first matching rule applies.
    rules: Vec<(Pattern, Vec<Template>)>,
}

/// A file below the root, without a leading slash: the text before and after `$path`, if it contains that.
struct Template {
    prefix: String,
    suffix: Option<String>,
}

impl TryFiles {
    /// Compiles the rules of a host. Reports errors with `add_error`.
    pub(super) fn new(host: &HostConfig, add_error: &mut impl FnMut(String, String)) -> Self {
        let mut rules = Vec::new();
        for (n, rule) in host.try_files.iter().enumerate() {
            let mut files = Vec::new();
            for file in &rule.files {
                match Template::new(file) {
                    Ok(template) => files.push(template),
                    Err(message) => add_error(format!("try-files[{n}].files"), message),
                }
            }
            match Pattern::new(&rule.path) {
                Ok(pattern) => rules.push((pattern, files)),
                Err(message) => add_error(format!("try-files[{n}].path"), message),
            }
        }
        Self { clean_urls: host.clean_urls, index: host.index.clone(), rules }
    }

    /// The clean URL of a page that was requested by its file name.
    pub(super) fn clean(
        &self,
        path: &[u8],
        directory: bool,
        query: Option<&str>,
    ) -> Option<Vec<u8>> {
        if !self.clean_urls || directory {
            return None;
        }
        let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let name = &path[start..];
        let clean = match name.strip_suffix(PAGE_SUFFIX)? {
            _ if self.index.iter().any(|index| index.as_bytes() == name) => &path[..start],
            _ => &path[..path.len() - PAGE_SUFFIX.len()],
        };
        let mut location = b"/".to_vec();
        path::encode(clean, &mut location);
        if let Some(query) = query {
            path::encode_query(query, &mut location);
        }
        Some(location)
    }

    /// The files to try, in order, for a `path` that matches no file, given without leading and trailing slashes.
    /// `directory` means that it had a trailing slash; then files whose names contain the path are not tried.
    pub(crate) fn files(&self, path: &[u8], directory: bool) -> Vec<Vec<u8>> {
        let mut files = Vec::new();
        if self.clean_urls && !directory {
            files.push([path, PAGE_SUFFIX].concat());
        }
        if self.rules.is_empty() {
            return files;
        }
        let requested = absolute(path, directory);
        let rule = self.rules.iter().find(|(pattern, _)| pattern.matches(&requested).is_some());
        for Template { prefix, suffix } in rule.map(|(_, files)| &files[..]).unwrap_or_default() {
            match suffix {
                None => files.push(prefix.as_bytes().to_vec()),
                Some(suffix) if !directory => {
                    files.push([prefix.as_bytes(), path, suffix.as_bytes()].concat());
                }
                Some(_) => (),
            }
        }
        files
    }
}

impl Template {
    fn new(text: &str) -> Result<Self, String> {
        let invalid = |message: &str| Err(format!("found {text:?}, {message}"));
        if text == PATH_PLACEHOLDER {
            return invalid("which is always tried first; remove it");
        }
        let plain = text.replacen(PATH_PLACEHOLDER, "/path", 1);
        let mut resolved = Vec::new();
        match path::resolve(plain.as_bytes(), &mut resolved) {
            Err(error) => return invalid(&format!("expected a path: {error}")),
            Ok(target)
                if target.directory
                    || resolved != plain.as_bytes()[1..]
                    || plain.contains(['$', '%', '?', '#']) =>
            {
                let expected = "expected a file such as \"/index.html\" or \"$path.html\"";
                return invalid(&format!(
                    "{expected}, without empty names, percent-encoding and query"
                ));
            }
            Ok(_) => (),
        }
        let (prefix, suffix) = match text.split_once(PATH_PLACEHOLDER) {
            Some((prefix, suffix)) => (prefix.to_owned() + "/", Some(suffix)),
            None => (text.to_owned(), None),
        };
        let prefix = prefix.trim_start_matches('/').to_owned();
        Ok(Self { prefix, suffix: suffix.map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TryRule;

    fn compiled(host: &HostConfig) -> Result<TryFiles, Vec<String>> {
        let mut errors = Vec::new();
        let rules =
            TryFiles::new(host, &mut |key, message| errors.push(format!("{key}: {message}")));
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    fn host(rules: &[(&str, &[&str])]) -> HostConfig {
        let rule = |(path, files): &(&str, &[&str])| TryRule {
            path: (*path).into(),
            files: files.iter().map(|file| (*file).into()).collect(),
        };
        HostConfig { try_files: rules.iter().map(rule).collect(), ..HostConfig::new(".") }
    }

    #[test]
    fn files_of_the_first_rule() {
        let app: &[&str] = &["$path.html", "/old$path/page.txt", "/app/index.html"];
        let rules = compiled(&host(&[("/app/**", app), ("/**", &["/index.html"])])).unwrap();
        let files = |path: &str, directory| {
            let files = rules.files(path.as_bytes(), directory).into_iter();
            files.map(|file| String::from_utf8(file).unwrap()).collect::<Vec<_>>()
        };
        let all = ["app/a/b.html", "old/app/a/b/page.txt", "app/index.html"];
        assert_eq!(files("app/a/b", false), all);
        assert_eq!(files("app/a/b", true), all[2..], "a directory");
        assert_eq!(files("apple", false), ["index.html"]);
        assert_eq!(files("", true), ["index.html"]);
    }

    #[test]
    fn errors_name_the_rule() {
        for invalid in [
            "$path",
            "index.html",
            "/",
            "/a/",
            "$path/",
            "/../a",
            "$path/../a",
            "/.a",
            "$path/.a",
            "=404",
            "$uri.html",
            "/a?b",
            "/%61",
            "/a//b",
            "/a/$path",
            "$path$path",
            "",
        ] {
            let errors = compiled(&host(&[("/**", &[invalid])])).err().expect(invalid);
            assert!(errors[0].starts_with("try-files[0].files: found "), "{errors:?}");
        }
        let errors = compiled(&host(&[("/**", &["/a"]), ("a/b", &["/a"])])).err().unwrap();
        assert!(errors[0].starts_with("try-files[1].path: "), "{errors:?}");
    }

    #[test]
    fn clean_urls_of_pages() {
        let mut host = host(&[]);
        assert_eq!(compiled(&host).unwrap().clean(b"a.html", false, None), None);
        (host.clean_urls, host.index) = (true, vec!["index.html".into(), "main.htm".into()]);
        let rules = compiled(&host).unwrap();
        for (path, query, wanted) in [
            ("a.html", None, Some("/a")),
            ("x/a b.html", Some("c=d"), Some("/x/a%20b?c=d")),
            ("index.html", None, Some("/")),
            ("x/index.html", Some("c"), Some("/x/?c")),
            ("evil.example/index.html", None, Some("/evil.example/")),
            ("main.htm", None, None),
            ("a.htm", None, None),
            ("a", None, None),
        ] {
            let found = rules.clean(path.as_bytes(), false, query);
            assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{path}");
        }
        assert_eq!(rules.clean(b"a.html", true, None), None, "a directory");
    }
}

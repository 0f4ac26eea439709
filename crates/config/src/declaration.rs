//! Listing the declarations of keys, for flags, variables and the reference.

/// The declaration of a key.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Name such as `host.tls.certificate`.
    pub key: String,
    /// Name of the flag, such as `tls-certificate`. Keys in lists of tables have none.
    pub flag: Option<String>,
    /// Type, such as `time|false`.
    pub kind: String,
    /// Whether the value is a list.
    pub list: bool,
    /// Default in TOML; mandatory keys have none.
    pub default: Option<String>,
    /// Allowed range, such as `1 to 1024`.
    pub bounds: Option<String>,
    /// Meaning, without a full stop.
    pub help: &'static str,
    /// Heading of the group of keys.
    pub section: &'static str,
}

impl Declaration {
    /// The environment variable of the flag in `command`, such as `PHALANX_WEB_TLS_CERTIFICATE`.
    pub fn variable(&self, command: &str) -> Option<String> {
        self.flag.as_deref().map(|flag| variable(command, flag))
    }

    /// Meaning, bounds and, if `with_default`, the default.
    pub fn text(&self, with_default: bool) -> String {
        let (first, rest) = self.help.split_at(1);
        let bounds = self.bounds.as_ref().map_or(String::new(), |bounds| format!("; {bounds}"));
        let default =
            self.default.as_ref().filter(|_| with_default).map_or(String::new(), |toml| {
                format!(" [default: {}]", toml.trim_matches(['[', ']']).replace('"', ""))
            });
        format!("{}{rest}{bounds}{default}", first.to_uppercase()).replace(" [default: ]", "")
    }
}

/// The environment variable of a flag in `command`: `PHALANX_WEB_LISTEN` for `web` and `listen`.
pub fn variable(command: &str, flag: &str) -> String {
    format!("PHALANX_{command}_{flag}").to_uppercase().replace('-', "_")
}

/// State of listing the keys of a table.
pub(crate) struct Declarer<'a> {
    prefix: String,
    flag: Option<String>,
    pub(crate) section: &'static str,
    all: &'a mut Vec<Declaration>,
}

impl<'a> Declarer<'a> {
    pub(crate) fn new(all: &'a mut Vec<Declaration>) -> Self {
        Self { prefix: String::new(), flag: Some(String::new()), section: "Server", all }
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        kind: String,
        list: bool,
        default: Option<String>,
        help: &'static str,
    ) {
        let (key, section) = (format!("{}{name}", self.prefix), self.section);
        let flag = self.flag.as_ref().map(|prefix| format!("{prefix}{name}"));
        self.all.push(Declaration { key, flag, kind, list, default, bounds: None, help, section });
    }

    pub(crate) fn last(&mut self) -> &mut Declaration {
        self.all.last_mut().expect("the key was added")
    }

    /// The same table, for keys without flags.
    pub(crate) fn without_flags(&mut self) -> Declarer<'_> {
        Declarer { prefix: self.prefix.clone(), flag: None, section: self.section, all: self.all }
    }

    fn within(&mut self, name: &str, flag: Option<String>) -> Declarer<'_> {
        let prefix = format!("{}{name}.", self.prefix);
        Declarer { prefix, flag, section: self.section, all: self.all }
    }

    /// A table whose name is not part of the flags.
    pub(crate) fn table(&mut self, name: &str) -> Declarer<'_> {
        self.within(name, self.flag.clone())
    }

    /// A table whose name begins the flags.
    pub(crate) fn optional(&mut self, name: &str) -> Declarer<'_> {
        self.within(name, self.flag.as_ref().map(|prefix| format!("{prefix}{name}-")))
    }

    /// A list of tables, whose keys have no flags.
    pub(crate) fn list(&mut self, name: &str) -> Declarer<'_> {
        self.within(name, None)
    }
}

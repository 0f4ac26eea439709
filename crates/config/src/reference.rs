//! The reference page of a server's keys, in Markdown.

use std::fmt::Write;

use crate::pass::{Keys, declarations};

/// The reference page of `phalanx COMMAND`, generated from the declarations of its keys.
pub fn reference(keys: &mut impl Keys, command: &str) -> String {
    let all = declarations(keys);
    let has_hosts = all.iter().any(|key| key.key.starts_with("host."));
    let (except, prefixes) = match has_hosts {
        true => ("`include`, `host.acme` and the `access-log` of a host", "`runtime.` and `host.`"),
        false => ("and `include`", "`runtime.`"),
    };
    let mut page = format!(
        "# Reference of phalanx {command}\n\n\
         The keys of the [configuration](configuration.md). This page is generated from their declarations.\n\n\
         Each key has a flag and an environment variable, except keys in lists of tables, {except}.\n\
         The flag is the name of the key without {prefixes}, with hyphens instead of dots. The variable is the\n\
         flag in capitals, with the prefix `PHALANX_{}_`. Keys, flags and variables accept the same values:\n\n\
         | type | in a file | flag or variable |\n|---|---|---|\n\
         | bool | `true`, `false` | `true`, `false`; a flag alone means `true` |\n\
         | number | `100` | `100` |\n\
         | size | `\"64K\"`, `\"256M\"`, `\"2G\"`, or bytes: `65536` | `64K`, `256M`, `2G`, `65536` |\n\
         | time | `\"20us\"`, `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"2h\"`, `\"7d\"`, `\"0\"` | `20us`, `500ms`, `30s`, `5m`, `2h`, `7d`, `0` |\n\
         | list of … | `[\"a\", \"b\"]`, or `\"a\"` for one | `a,b`, or the flag several times; empty for `[]` |\n\
         | … or false | `false` for none | `false` for none |\n",
        command.to_uppercase()
    );
    let mut section = "";
    for key in &all {
        if key.section != section {
            section = key.section;
            let _ = write!(
                page,
                "\n## {section}\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
            );
        }
        let default = match &key.default {
            Some(text) if text.contains(' ') && !text.starts_with(['"', '[', '{']) => text.clone(),
            Some(toml) => format!("`{toml}`"),
            None => "required".to_owned(),
        };
        let kind = key.kind.replace('|', " or ");
        let kind = if key.list { format!("list of {kind}") } else { kind };
        let _ = writeln!(page, "| `{}` | {kind} | {default} | {} |", key.key, key.text(false));
    }
    page
}

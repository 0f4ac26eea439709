//! Options of mosquitto that are not translated, each with the reason.

use std::collections::BTreeSet;

use super::reader::Setting;

/// The notes about a translation.
#[derive(Debug, Default)]
pub(super) struct Notes {
    lines: Vec<String>,
    /// The places of options that are left out and of options that are not needed. Sets, because an option may have
    /// several notes.
    left_out: BTreeSet<SettingLocation>,
    unneeded: BTreeSet<SettingLocation>,
}

/// A file and a line.
type SettingLocation = (String, usize);

impl Notes {
    /// An option without an equivalent, or with a value that cannot be translated.
    pub(super) fn left_out(&mut self, setting: &Setting, reason: &str) {
        self.left_out.insert(origin(setting));
        self.add(setting, "left out", reason);
    }

    /// An option whose purpose is fulfilled without a key.
    pub(super) fn unneeded(&mut self, setting: &Setting, reason: &str) {
        self.unneeded.insert(origin(setting));
        self.add(setting, "not needed", reason);
    }

    /// Adds a hint about an option that is translated.
    pub(super) fn hint(&mut self, setting: &Setting, message: &str) {
        self.add(setting, "note", message);
    }

    /// Adds a hint about the whole result.
    pub(super) fn add_general(&mut self, message: &str) {
        self.lines.push(message.to_owned());
    }

    fn add(&mut self, Setting { file, line, key, value }: &Setting, kind: &str, reason: &str) {
        let value = if value.is_empty() { String::new() } else { format!(" {value}") };
        self.lines.push(format!("{file}:{line}: {key}{value}: {kind}: {reason}"));
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &String> {
        self.lines.iter()
    }

    /// A summary of `all` options.
    pub(super) fn summary(&self, all: usize) -> String {
        let left_out = self.left_out.len();
        let unneeded = self.unneeded.difference(&self.left_out).count();
        let translated = all - left_out - unneeded;
        format!(
            "{all} options: {translated} translated, {unneeded} not needed, {left_out} left out"
        )
    }
}

fn origin(setting: &Setting) -> SettingLocation {
    (setting.file.clone(), setting.line)
}

/// The reason why an option is never translated, and whether its purpose is fulfilled nevertheless; `None` if it is
/// unknown.
pub(super) fn reason(key: &str) -> Option<(bool, &'static str)> {
    let left_out = |reason| Some((false, reason));
    let unneeded = |reason| Some((true, reason));
    match key {
        "autosave_interval" | "autosave_on_changes" | "persistence_file" => {
            unneeded("everything acknowledged is on disk")
        }
        "log_dest" | "log_timestamp" | "log_timestamp_format" | "log_facility" => {
            unneeded("the log is on stderr, which systemd or the shell can redirect")
        }
        "websockets_log_level" => unneeded("`log-events` selects what is logged"),
        "user" | "pid_file" => {
            unneeded("the service manager chooses the user and knows the process")
        }
        "set_tcp_nodelay" => unneeded("output is sent immediately"),
        "memory_limit" => left_out(
            "the limits on queues, sessions, subscriptions and retained messages bound the memory",
        ),
        "clientid_prefixes" => {
            left_out("unlike with mosquitto, clients with other identifiers are accepted")
        }
        "max_inflight_bytes" => left_out("`max-queued-bytes` counts the messages in flight too"),
        "queue_qos0_messages" | "upgrade_outgoing_qos" => left_out(
            "messages of QoS 0 are not queued for disconnected clients, and keep their QoS",
        ),
        "ciphers" | "ciphers_tls1.3" | "tls_version" | "dhparamfile" | "tls_engine"
        | "tls_keyform" => left_out("TLS 1.2 and 1.3 are offered, with the ciphers of rustls"),
        "psk_file" => {
            left_out("pre-shared keys are not supported by rustls; use SCRAM or certificates")
        }
        "mount_point" => left_out("topics are not rewritten"),
        "max_qos" => left_out("messages of every QoS are accepted"),
        "http_dir" => left_out("`phalanx web` serves files"),
        "websockets_headers_size" => unneeded("the head of an upgrade is limited to a fixed size"),
        "auto_id_prefix" | "allow_duplicate_messages" | "check_retain_source" | "global_plugin" => {
            left_out("there is no equivalent")
        }
        _ if key.starts_with("auth_opt_http_") => left_out("see `auth-http`, for logins by HTTP"),
        _ if key.starts_with("auth_opt_jwt_") => left_out("see `jwt`, for tokens as passwords"),
        _ if key.contains("plugin") || key.starts_with("auth_opt_") => {
            left_out("plugins are not supported")
        }
        _ => None,
    }
}

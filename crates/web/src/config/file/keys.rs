//! Declarations of all keys of a configuration, each once. The fields and `docs/web/configuration.md`
//! document their meaning.

use phalanx_config::{Keys, Pass};
use phalanx_http::Limits;

use crate::config::file::values::{ErrorPages, LogFormats};
use crate::config::{
    AccessLog, Auth, CacheRule, Config, Cors, HeaderRule, HostConfig, PerAddress, Redirect,
    RedirectStatus, Rewrite, SecurityHeaders, Timeouts, Tls, TypeRule,
};

impl Keys for Config {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key("listen", &mut self.listen);
        pass.key("h2c", &mut self.h2c);
        pass.key("unknown-host", &mut self.unknown_host);
        pass.key("cache", &mut self.cache_bytes);
        pass.key("open-files", &mut self.open_files);
        pass.key("max-connections", &mut self.max_connections);
        pass.key("max-queue-delay", &mut self.max_queue_delay);
        pass.key("health", &mut self.health);
        pass.table("runtime", &mut self.runtime);
        pass.table_of("limits", |pass| limits(&mut self.limits, pass));
        pass.table("timeouts", &mut self.timeouts);
        pass.table("per-address", &mut self.per_address);
        pass.optional("access-log", &mut self.access_log);
        let is_default = |host: &HostConfig| host.server_names.is_empty();
        pass.list_or_default("host", &mut self.hosts, || HostConfig::new("."), is_default);
    }
}

fn limits(limits: &mut Limits, pass: &mut Pass<'_, '_>) {
    pass.key("request-line", &mut limits.request_line);
    pass.key("head", &mut limits.head);
    pass.key("headers", &mut limits.headers);
    pass.key("body", &mut limits.body);
}

impl Keys for Timeouts {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key("request", &mut self.request);
        pass.key("handshake", &mut self.handshake);
        pass.key("body", &mut self.body);
        pass.key("idle", &mut self.idle);
        pass.key("send", &mut self.send);
        pass.key("min-send-rate", &mut self.min_send_rate);
        pass.key("revalidate", &mut self.revalidate);
    }
}

impl Keys for PerAddress {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key("connections", &mut self.connections);
        pass.key("requests-per-second", &mut self.requests_per_second);
        pass.key("burst", &mut self.burst);
    }
}

impl Keys for AccessLog {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key_as::<LogFormats, _>("format", &mut self.format);
        pass.path("target", &mut self.target);
    }
}

impl Keys for HostConfig {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key("server-names", &mut self.server_names);
        pass.path("root", &mut self.root);
        pass.key("index", &mut self.index);
        pass.key("listing", &mut self.listing);
        pass.key("fallback", &mut self.fallback);
        pass.key_as::<ErrorPages, _>("error-pages", &mut self.error_pages);
        pass.key("symlinks", &mut self.symlinks);
        pass.key("charset", &mut self.charset);
        pass.key("precompressed", &mut self.precompressed);
        pass.key("compress", &mut self.compress);
        pass.optional("security-headers", &mut self.security_headers);
        pass.optional("cors", &mut self.cors);
        pass.optional("tls", &mut self.tls);
        let rule = || CacheRule { path: String::new(), value: String::new() };
        pass.list("cache-control", &mut self.cache_control, rule);
        let rule = || HeaderRule { path: String::new(), name: String::new(), value: String::new() };
        pass.list("header", &mut self.headers, rule);
        let rule = || TypeRule { path: String::new(), value: String::new() };
        pass.list("content-type", &mut self.content_types, rule);
        let status = RedirectStatus::default();
        let rule = || Redirect { from: String::new(), to: String::new(), status };
        pass.list("redirect", &mut self.redirects, rule);
        let rule = || Rewrite { from: String::new(), to: String::new() };
        pass.list("rewrite", &mut self.rewrites, rule);
        let realm = || "restricted".to_owned();
        let rule = || Auth { path: "/**".into(), realm: realm(), users: Default::default() };
        pass.list("auth", &mut self.auth, rule);
    }
}

impl Keys for SecurityHeaders {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key("nosniff", &mut self.nosniff);
        pass.key("frame-options", &mut self.frame_options);
        pass.key("referrer-policy", &mut self.referrer_policy);
        pass.key("content-security-policy", &mut self.content_security_policy);
        pass.key("permissions-policy", &mut self.permissions_policy);
        pass.key("strict-transport-security", &mut self.strict_transport_security);
    }
}

impl Keys for Cors {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("origins", &mut self.origins);
        pass.key("methods", &mut self.methods);
        pass.key("headers", &mut self.headers);
        pass.key("expose", &mut self.expose);
        pass.key("credentials", &mut self.credentials);
        pass.key("max-age", &mut self.max_age);
    }
}

impl Keys for Tls {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required_path("certificate", &mut self.certificate);
        pass.required_path("key", &mut self.key);
    }
}

impl Keys for CacheRule {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("path", &mut self.path);
        pass.required("value", &mut self.value);
    }
}

impl Keys for TypeRule {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("path", &mut self.path);
        pass.required("value", &mut self.value);
    }
}

impl Keys for HeaderRule {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("path", &mut self.path);
        pass.required("name", &mut self.name);
        pass.required("value", &mut self.value);
    }
}

impl Keys for Redirect {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("from", &mut self.from);
        pass.required("to", &mut self.to);
        pass.key("status", &mut self.status);
    }
}

impl Keys for Rewrite {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("from", &mut self.from);
        pass.required("to", &mut self.to);
    }
}

impl Keys for Auth {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key("path", &mut self.path);
        pass.key("realm", &mut self.realm);
        pass.required_path("users", &mut self.users);
    }
}

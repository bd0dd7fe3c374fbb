//! How a browser is started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use capataz_shim::ShimCommand;
use rustix::fs::statvfs;
use rustix::process::geteuid;

/// Environment variables that the browser gets where the caller's environment has them. Everything else stays out: it
/// could hold secrets, and a browser reads pages that strangers wrote.
const PASSED: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TZ"];

/// What a window on a screen needs beside them.
const PASSED_HEADED: [&str; 5] =
    ["DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// Features that are always off. Each of these asks servers of its own, announces itself in the local network, or turns a
/// navigation into another one.
const DISABLED_FEATURES: [&str; 12] = [
    "AimEnabled",
    "AimServerEligibilityEnabled",
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PreconnectToSearch",
    "Translate",
];

/// Longest wait for the first answer: a cold start on a busy machine takes some seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Bytes of shared memory that have to be free for a browser to use it.
const SHARED_MEMORY: u64 = 1024 * 1024 * 1024;

/// The temporary folder within the profile folder, in which the browser works. Relative, because the browser makes a
/// socket in it, whose path is limited to 108 bytes: with a longer one it ends at its start.
pub(crate) const TEMPORARY_FOLDER: &str = "tmp";

/// Size of the window, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    pub width: u32,
    pub height: u32,
}

/// How a browser is started so that it ends with us, even when we are killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimOptions {
    pub command: ShimCommand,
    /// Where [`await_orphans`](capataz_shim::await_orphans) looks for browsers that are still ending.
    pub locks_folder: PathBuf,
}

/// What [`Browser::launch`](crate::Browser::launch) is asked for.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// The browser's program.
    pub program: PathBuf,
    /// An absolute path: the folder in which the browser works, with its profile, home and temporary files. The launch
    /// makes this folder, and refuses one with something in it; it is removed with all its content when the browser has
    /// ended.
    pub profile_folder: PathBuf,
    /// True if the browser shows no window.
    pub headless: bool,
    pub window: WindowSize,
    /// A SOCKS5 proxy that every connection goes through, those to loopback addresses included; WebRTC then sends
    /// nothing that the proxy does not carry.
    pub proxy: Option<SocketAddr>,
    /// Where files that a page downloads are written, under the download's own id; an absolute path. Without it downloads
    /// are refused. Holds for the default browser context only.
    pub download_folder: Option<PathBuf>,
    /// The shim to start the browser under. Without one the browser is our own child: it still notices our death by
    /// itself, but a browser that hangs does not, and its profile folder stays.
    pub shim: Option<ShimOptions>,
    /// Features of the browser that are off, besides those that are always off. A second `--disable-features` among
    /// `extra_args` would replace all of them.
    pub disabled_features: Vec<String>,
    /// Further switches, after ours. If a switch is given twice, the browser heeds the last.
    pub extra_args: Vec<OsString>,
    /// The browser's whole environment, but for `HOME`, `TMPDIR` and what follows from them; see
    /// [`passed_environment`].
    pub environment: BTreeMap<OsString, OsString>,
    /// Longest wait for the browser's first answer.
    pub answer_limit: Duration,
}

/// What the switches depend on beside the options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) as_root: bool,
    pub(crate) small_shared_memory: bool,
}

impl Machine {
    pub(crate) fn observe() -> Self {
        let shared_memory = statvfs("/dev/shm").map(|memory| memory.f_bavail.saturating_mul(memory.f_frsize));
        Self {
            as_root: geteuid().is_root(),
            small_shared_memory: shared_memory.is_ok_and(|bytes| bytes < SHARED_MEMORY),
        }
    }
}

impl LaunchOptions {
    /// A headless browser with an empty environment.
    pub fn new(program: impl Into<PathBuf>, profile_folder: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            profile_folder: profile_folder.into(),
            headless: true,
            window: WindowSize { width: 1280, height: 800 },
            proxy: None,
            download_folder: None,
            shim: None,
            disabled_features: Vec::new(),
            extra_args: Vec::new(),
            environment: BTreeMap::new(),
            answer_limit: ANSWER_LIMIT,
        }
    }

    /// The switches of the command line. Everything that talks to the network by itself, asks a person, or saves work
    /// while a window is hidden is off: an action must do the same each time.
    pub(crate) fn arguments(&self, machine: Machine) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = [
            "--remote-debugging-pipe",
            "--no-startup-window",
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-component-extensions-with-background-pages",
            "--disable-default-apps",
            "--disable-extensions",
            "--disable-sync",
            "--disable-quic",
            "--disable-breakpad",
            "--disable-field-trial-config",
            "--disable-client-side-phishing-detection",
            "--disable-hang-monitor",
            "--disable-prompt-on-repost",
            "--disable-background-timer-throttling",
            "--disable-backgrounding-occluded-windows",
            "--disable-renderer-backgrounding",
            "--metrics-recording-only",
            "--password-store=basic",
            "--use-mock-keychain",
            "--force-color-profile=srgb",
            // Nothing else keeps the browser from asking who is signed in to it, and from registering for messages. It
            // connects to neither of these.
            "--gaia-url=https://localhost:1",
            "--gcm-checkin-url=data:,",
            "--disable-domain-reliability",
            // Chromium 156 asks for the list of its language models at each start, as a person would ask for an update:
            // `--disable-component-update` holds back only the updates that come of themselves. Sent to a port that
            // browsers refuse, no such request is connected to anything.
            "--component-updater=url-source=https://localhost:1/",
            // Clicks on a page that has not painted yet would be lost silently.
            "--allow-pre-commit-input",
        ]
        .map(OsString::from)
        .into();
        let own = self.disabled_features.iter().map(String::as_str);
        let disabled: Vec<&str> = DISABLED_FEATURES.into_iter().chain(own).collect();
        arguments.push(format!("--disable-features={}", disabled.join(",")).into());
        let mut user_data = OsString::from("--user-data-dir=");
        user_data.push(self.profile_folder.join("data"));
        arguments.push(user_data);
        arguments.push(format!("--window-size={},{}", self.window.width, self.window.height).into());
        if self.headless {
            arguments.extend(
                ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--mute-audio"].map(Into::into),
            );
        }
        if machine.as_root {
            // The sandbox refuses to start as root.
            arguments.push("--no-sandbox".into());
        }
        if machine.small_shared_memory {
            // Pages crash where it runs out, as it does in containers with their 64 MiB; files take its place.
            arguments.push("--disable-dev-shm-usage".into());
        }
        if let Some(proxy) = self.proxy {
            arguments.push(format!("--proxy-server=socks5://{proxy}").into());
            arguments.push("--proxy-bypass-list=<-loopback>".into());
            // The proxy looks names up. The browser itself would do so, too, where a page hints at one.
            arguments.push(format!("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {}", proxy.ip()).into());
            // Versions differ in the name of this switch; they ignore the other one.
            arguments.push("--webrtc-ip-handling-policy=disable_non_proxied_udp".into());
            arguments.push("--force-webrtc-ip-handling-policy=disable_non_proxied_udp".into());
        }
        arguments.extend(self.extra_args.iter().cloned());
        arguments
    }

    /// The environment with the folders in the profile.
    pub(crate) fn variables(&self) -> BTreeMap<OsString, OsString> {
        let mut variables = self.environment.clone();
        variables.insert("HOME".into(), self.home_folder().into());
        variables.insert("TMPDIR".into(), TEMPORARY_FOLDER.into());
        variables
    }

    pub(crate) fn home_folder(&self) -> PathBuf {
        self.profile_folder.join("home")
    }
}

/// The few variables that a browser needs out of an environment that `lookup` answers for.
pub fn passed_environment(
    headless: bool,
    lookup: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<OsString, OsString> {
    let headed: &[&str] = if headless { &[] } else { &PASSED_HEADED };
    let names = PASSED.iter().chain(headed);
    names.filter_map(|name| Some((OsString::from(name), lookup(name)?))).collect()
}

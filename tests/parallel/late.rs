//! Workers that answer and do not come to a reduce.

use std::net::TcpListener;
use std::process::{Child, Stdio};

use lms_testing::program::{MNIST, command};

/// Ends when it is out of sight.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The second worker pauses before its first step, for longer than the first one waits.
#[test]
fn who_is_on_its_way_to_a_step_is_named() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (own, other) = (free(), free());
    let cluster = format!("{own},{other}");
    let model = format!("testdata/{}.meta", MNIST.model);
    let flags = |rank: &'static str, further: &[&str]| {
        let all =
            [model.as_str(), "--device", "cpu", "--feed", MNIST.feeds[0], "--threads", "1", "--warmup", "0"];
        command(&[&all[..], &["--cluster", &cluster, "--rank", rank], further].concat())
    };
    let mut slow = flags("1", &["--pause", "100"]);
    let _slow = Ended(slow.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let output = flags("0", &["--start-timeout", "6", "--worker-timeout", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    let late = format!("worker 0: step 1: worker 1 ({other}) is late: it has been on its way to step 1 for ");
    assert!(said.contains(&late), "{said}");
}

"""Who is let in: this machine's own page and nobody else's; elsewhere only with the token."""

import http.client

import made_run
import pytest

guard = pytest.importorskip("evokernel.web.auth", reason="the page needs evokernel[web]", exc_type=ImportError)


def ask(served, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


@pytest.fixture
def runs(tmp_path):
    made_run.write_run(tmp_path / "runs" / "one", *made_run.made())
    return tmp_path / "runs"


def test_every_answer_carries_the_policy(runs, serve):
    served = serve([runs])
    for path in ("/", "/run?run=one", "/nowhere", "/static/web.js", "/run?run=nope"):
        _, headers, _ = ask(served, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_it_is_only_read(runs, serve):
    served = serve([runs])
    assert [ask(served, method=method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [405] * 4
    assert ask(served, method="HEAD")[0] == 200


def test_other_names_and_other_sites_are_refused(runs, serve):
    served = serve([runs])
    own = f"127.0.0.1:{served.port}"
    assert ask(served, host=own)[0] == 200
    assert ask(served, host=f"localhost:{served.port}")[0] == 200
    assert ask(served, host="evil.example")[0] == 421
    assert ask(served, host=f"evil.example:{served.port}")[0] == 421
    assert ask(served, host="127.0.0.1:1")[0] == 421
    assert ask(served, host="127.0.0.1:x")[0] == 421
    assert ask(served, origin="https://evil.example")[0] == 403
    assert ask(served, origin="null")[0] == 403
    assert ask(served, origin=f"http://{own}")[0] == 200
    assert ask(served, sec_fetch_site="cross-site", sec_fetch_mode="no-cors", sec_fetch_dest="script")[0] == 403
    assert ask(served, sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe")[0] == 403
    assert ask(served, sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")[0] == 200


def test_elsewhere_only_with_the_token(runs, serve):
    served = serve([runs], host="0.0.0.0", token="letmein")
    for path in ("/", "/static/web.js", "/live?view=runs", "/?token=wrong"):
        assert ask(served, path, host="box.example")[0] == 401
    status, headers, _ = ask(served, "/run?run=one&token=letmein", host="box.example")
    assert (status, headers["location"]) == (303, "/run?run=one")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert ask(served, "/run?run=one", host="box.example", cookie=cookie.partition(";")[0])[0] == 200
    assert ask(served, "/", host="box.example", cookie=f"evokernel-{served.port}=wrong")[0] == 401
    assert ask(served, "/", host="box.example", authorization="Bearer letmein")[0] == 200


def test_an_address_cannot_leave_the_folders(runs, serve):
    served = serve([runs])
    assert ask(served, "/run?run=../one")[0] == 404
    assert ask(served, "/run?run=%2Fetc")[0] == 404
    assert ask(served, "/static/..%2fserver.py")[0] == 404
    assert ask(served, "/static/../server.py")[0] == 404
    assert ask(served, f"/run?run={'x' * 9000}")[0] == 414
    assert ask(served, "/run?run=one&page=999999999999&sort=%00&category=%22%3E&show=x")[0] == 200


@pytest.mark.parametrize(("host", "local"), [("localhost", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("box", False)])
def test_loopback(host, local):
    assert guard.is_loopback(host) is local

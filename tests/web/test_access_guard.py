"""Access control: only local requests from our own pages, or requests with the token."""

import http.client

import pytest
import sample_run

from evokernel.app.http_server import is_loopback

pytest.importorskip("evokernel.web.auth", reason="the dashboard needs evokernel[web]", exc_type=ImportError)


def request(dashboard, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


@pytest.fixture
def runs(tmp_path):
    sample_run.write_run(tmp_path / "runs" / "one", *sample_run.make_sample())
    return tmp_path / "runs"


def test_every_response_has_security_headers(runs, serve):
    dashboard = serve([runs])
    for path in ("/", "/run?run=one", "/nowhere", "/static/web.js", "/run?run=nope"):
        _, headers, _ = request(dashboard, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_only_reading_methods_are_allowed(runs, serve):
    dashboard = serve([runs])
    assert [request(dashboard, method=method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [405] * 4
    assert request(dashboard, method="HEAD")[0] == 200


def test_foreign_hosts_and_sites_are_refused(runs, serve):
    dashboard = serve([runs])
    own = f"127.0.0.1:{dashboard.port}"
    assert request(dashboard, host=own)[0] == 200
    assert request(dashboard, host=f"localhost:{dashboard.port}")[0] == 200
    assert request(dashboard, host="evil.example")[0] == 421
    assert request(dashboard, host=f"evil.example:{dashboard.port}")[0] == 421
    assert request(dashboard, host="127.0.0.1:1")[0] == 421
    assert request(dashboard, host="127.0.0.1:x")[0] == 421
    assert request(dashboard, origin="https://evil.example")[0] == 403
    assert request(dashboard, origin="null")[0] == 403
    assert request(dashboard, origin=f"http://{own}")[0] == 200
    assert request(dashboard, sec_fetch_site="cross-site", sec_fetch_mode="no-cors", sec_fetch_dest="script")[0] == 403
    assert request(dashboard, sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe")[0] == 403
    assert request(dashboard, sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")[0] == 200


def test_remote_access_requires_the_token(runs, serve):
    dashboard = serve([runs], host="0.0.0.0", token="letmein")
    for path in ("/", "/static/web.js", "/live?view=runs", "/?token=wrong"):
        assert request(dashboard, path, host="box.example")[0] == 401
    status, headers, _ = request(dashboard, "/run?run=one&token=letmein", host="box.example")
    assert (status, headers["location"]) == (303, "/run?run=one")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert request(dashboard, "/run?run=one", host="box.example", cookie=cookie.partition(";")[0])[0] == 200
    assert request(dashboard, "/", host="box.example", cookie=f"evokernel-{dashboard.port}=wrong")[0] == 401
    assert request(dashboard, "/", host="box.example", authorization="Bearer letmein")[0] == 200


def test_urls_cannot_leave_the_served_folders(runs, serve):
    dashboard = serve([runs])
    assert request(dashboard, "/run?run=../one")[0] == 404
    assert request(dashboard, "/run?run=%2Fetc")[0] == 404
    assert request(dashboard, "/static/..%2fserver.py")[0] == 404
    assert request(dashboard, "/static/../server.py")[0] == 404
    assert request(dashboard, f"/run?run={'x' * 9000}")[0] == 414
    assert request(dashboard, "/run?run=one&page=999999999999&sort=%00&category=%22%3E&show=x")[0] == 200


@pytest.mark.parametrize(("host", "local"), [("localhost", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("box", False)])
def test_loopback_hosts_are_recognized(host, local):
    assert is_loopback(host) is local

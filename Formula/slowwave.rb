# brew tap OWNER/slowwave https://github.com/OWNER/slowwave && brew install slowwave
#
# The release workflow writes address, version and checksum (scripts/release.py); before the first release they are empty.
class Slowwave < Formula
  desc "Long-term memory for agents, as a temporal knowledge graph in LanceDB"
  homepage "https://github.com/OWNER/slowwave"
  url "https://github.com/OWNER/slowwave/releases/download/v0.1.0/slowwave-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "uv" => :build
  depends_on "python@3.12"

  # No resources: LanceDB has no source distribution, so nothing could be built from them. The pinned wheels of the lock
  # are installed as they are.
  def install
    python = libexec/"bin/python"
    system "uv", "venv", "--python", Formula["python@3.12"].opt_bin/"python3.12", libexec
    system "uv", "pip", "install", "--python", python, "--requirement", "requirements.lock"
    system "uv", "pip", "install", "--python", python, "--no-deps", "."
    bin.install_symlink libexec/"bin/slowwave"
    man1.install "share/man/man1/slowwave.1"
    bash_completion.install "share/bash-completion/completions/slowwave"
    zsh_completion.install "share/zsh/site-functions/_slowwave"
    fish_completion.install "share/fish/vendor_completions.d/slowwave.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/slowwave --version")
    system bin/"slowwave", "demo", "--keep", testpath/"memory"
  end
end

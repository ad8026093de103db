module github.com/csenv/csenv

go 1.26
